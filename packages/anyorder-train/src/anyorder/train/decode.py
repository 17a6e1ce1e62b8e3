"""Text from left to right: each next token from what memory keeps of all tokens before it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from anyorder.core import (
    CONSECUTIVE,
    ONE_SHOT,
    PERMUTATION,
    IncompatiblePartsError,
    Memory,
    MemoryState,
    Plan,
    Streams,
    TokenBatch,
    find,
)

from .objective import Objective
from .predictions import log_probabilities, streams_to_score

__all__ = ["Decoder", "Sampling", "generate", "reads_in_order"]


def reads_in_order(objective: Objective) -> bool:
    """Whether a model predicts a token from those to its left: by its own order, or by any order."""
    return objective.masks.scoring().needs <= {CONSECUTIVE, PERMUTATION} and ONE_SHOT not in objective.order.traits


class Decoder:
    """Reads tokens and predicts the next one, for ``B`` texts at a time.

    What is read at once (a prompt) is known together where the model's masks allow it, and is never computed again:
    memory keeps the keys and values of its last ``window`` tokens, so that a step costs two content slots and one
    query, however long the text. With absolute positions, or masks that add slots of their own to the input, what is
    kept would not be what the model computes; then, or where ``cached`` is false, every step computes the whole text.

    Args:
        objective: a model in evaluation mode.
        window: most tokens kept.
        cached: keep keys and values. The naive twin, without, agrees as long as the text fits in the window.

    Raises:
        IncompatiblePartsError: the model does not predict from left to right, or its head has no scores of tokens.
    """

    def __init__(self, objective: Objective, *, window: int, cached: bool = True) -> None:
        if not reads_in_order(objective):
            raise IncompatiblePartsError("the model predicts all hidden tokens at once: it has no next token to write")
        if not hasattr(objective.heads["loss"], "logits"):
            raise IncompatiblePartsError("the model's head has no scores of tokens to choose from")
        self.objective, self.window = objective, window
        self.cached = cached and getattr(objective.backbone, "absolute", None) is None
        self._state: MemoryState | None = None
        self._read: list[Tensor] = []

    @torch.no_grad()
    def read(self, ids: Int[Tensor, "B N"]) -> Float[Tensor, "B V"]:
        """Take in at least one token of each text, and tell log-probabilities of the next, in nats, on the CPU."""
        self._read.append(ids)
        if self.cached:
            streams = self._streams([ids])
            self.cached = streams.content.count == ids.shape[1] + 1
            if self.cached:
                return self._step(streams, rows=ids.shape[0], count=ids.shape[1])
        return self._whole()

    def _step(self, streams: Streams, *, rows: int, count: int) -> Tensor:
        memory: Memory = find("memory", "segment")(mem_len=self.window, reuse_len=count)
        if self._state is None:
            self._state = self.objective.begin(memory, rows, projected=True)
        return self._predict(streams, self._state, memory)

    def _whole(self) -> Tensor:
        return self._predict(self._streams(self._read), None, None)

    def _streams(self, pieces: list[Tensor]) -> Streams:
        """Streams of pieces read one after another, and of one token more, which is to be predicted."""
        ids = torch.cat([*pieces, pieces[-1][:, -1:]], dim=1)  # the last one is a stand-in that nobody sees
        if CONSECUTIVE in self.objective.masks.scoring().needs:
            time = torch.arange(1, ids.shape[1] + 1)
        else:
            turns = [torch.full((piece.shape[1],), turn) for turn, piece in enumerate(pieces)]
            time = torch.cat([*turns, torch.tensor([len(pieces)])])
        target = torch.zeros_like(ids, dtype=torch.bool)
        target[:, -1] = True
        return streams_to_score(self.objective, TokenBatch.of(ids), Plan.of(time.expand_as(ids), target), num_targets=1)

    def _predict(self, streams: Streams, state: MemoryState | None, memory: Memory | None) -> Tensor:
        output = self.objective.backbone(streams, state)
        if state is not None and memory is not None:
            self._state = self.objective.remember(memory, state, output, streams)
        return log_probabilities(self.objective, streams, output)[:, 0]


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How a token is drawn from its log-probabilities.

    Attributes:
        temperature: they are divided by it; 0 takes the likeliest.
        top_k: only so many of the likeliest; 0 for all.
        top_p: the likeliest that together have at least this probability (Holtzman et al. 2020, section 3.1).
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def choose(self, scores: Float[Tensor, "B V"], generator: torch.Generator) -> Int[Tensor, " B"]:
        if self.temperature == 0.0:
            return scores.argmax(dim=-1)
        scores, order = (scores / self.temperature).sort(dim=-1, descending=True, stable=True)
        probability = scores.softmax(dim=-1)
        # A token stays if those likelier than it do not reach top_p yet; the first always does.
        kept = probability.cumsum(dim=-1) - probability < self.top_p
        kept[:, 0] = True
        if self.top_k:
            kept[:, self.top_k :] = False
        drawn = torch.multinomial(probability * kept, 1, generator=generator)
        return order.gather(1, drawn)[:, 0]


@torch.no_grad()
def generate(
    decoder: Decoder,
    prompt: Int[Tensor, "B N"],
    *,
    tokens: int,
    sampling: Sampling = Sampling(),
    seed: int = 0,
    forbidden: tuple[int, ...] = (),
) -> Int[Tensor, "B T"]:
    """Write ``tokens`` more tokens after a prompt.

    Args:
        decoder: one that has read nothing yet.
        prompt: at least one token; the start of a text is the end-of-document token.
        tokens: how many.
        sampling: how each is drawn.
        seed: of the draws.
        forbidden: ids that are never written.
    """
    generator = torch.Generator().manual_seed(seed)
    written: list[Tensor] = []
    scores = decoder.read(prompt)
    for _ in range(tokens):
        scores[:, list(forbidden)] = -torch.inf
        written.append(sampling.choose(scores, generator))
        if len(written) < tokens:
            scores = decoder.read(written[-1][:, None])
    return torch.stack(written, dim=1) if written else prompt[:, :0]
