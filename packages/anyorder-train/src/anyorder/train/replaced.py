"""Replaced-token detection: two backbones over the same parts, the first of which writes the second one's input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from anyorder.core import Backbone, BackboneOutput, Draws, LossHead, LossOutput, MemoryState, Streams, TokenBatch

from .objective import Objective, ObjectiveOutput

__all__ = ["REPLACED", "ReplacedTokenDetection", "SampledStreams"]

REPLACED = "replaced"
"""Name of the head that detects replaced tokens."""


@dataclass(frozen=True, kw_only=True)
class SampledStreams(Streams):
    """Streams with the numbers in [0, 1) from which a token is sampled at each target."""

    lots: Float[Tensor, "B P"]


class ReplacedTokenDetection(Objective):
    """A generator predicts hidden tokens; the model detects which of its samples are not the text's (ELECTRA).

    The main head ``loss`` reads the generator; the head ``replaced``, and all that ride along, read the model itself,
    whose input has a sample in each target's place. A sample that is the true token is none replaced. No gradient goes
    through the sampling. Both share one word embedding (ELECTRA, section 3.2), hence one width.

    Args:
        generator: a smaller backbone of the same width. Its ``embedding`` becomes the backbone's.
        detector: the head of the binary predictions.
        weight: of its mean loss in the total (50 in ELECTRA, section 3.1, beside 1 for the generator's).
        parts: as for :class:`Objective`; masks must read targets at their own places in a content stream.
    """

    def __init__(
        self,
        *,
        generator: Backbone,
        detector: LossHead,
        weight: float = 50.0,
        heads: Mapping[str, LossHead],
        head_weights: Mapping[str, float] | None = None,
        **parts: Any,
    ) -> None:
        weights = {**(head_weights or {}), REPLACED: weight}
        super().__init__(heads={**heads, REPLACED: detector}, head_weights=weights, **parts)
        self.generator = generator
        self.generator.embedding = self.backbone.embedding  # type: ignore[attr-defined]

    def prepare(
        self, batch: TokenBatch, *, seed: int, step: int, rows: Tensor | int | None = None, **options: Any
    ) -> SampledStreams:
        """The streams of the generator, and what its samples are drawn from."""
        streams = super().prepare(batch, seed=seed, step=step, rows=rows, **options)
        draws = Draws(seed, step, rows=batch.rows if rows is None else rows, purpose="samples")
        lots = draws.rand(streams.readouts["loss"].index.shape[1])
        return SampledStreams(**{item.name: getattr(streams, item.name) for item in fields(Streams)}, lots=lots)

    def states(self, streams: Streams, memory: MemoryState | None = None) -> BackboneOutput:
        """The generator's states, from which the main head predicts."""
        return self.generator(streams, None)

    def forward(self, streams: Streams, memory: MemoryState | None = None) -> ObjectiveOutput:
        """The generator's loss, then every other head's under the model's reading of the filled-in input."""
        assert isinstance(streams, SampledStreams)
        losses: dict[str, LossOutput] = {}
        readout = streams.readouts["loss"]
        hidden = readout.gather(self.states(streams).stream(readout.stream))
        head: Any = self.heads["loss"]
        losses["loss"] = head(hidden, readout, embedding=self.embedding)
        with torch.no_grad():
            sampled = sample(head.logits(hidden, embedding=self.embedding), streams.lots)
        filled = self._fill_in(streams, sampled)
        rest = {name: head for name, head in self._heads().items() if name != "loss"}
        losses |= self._losses(rest, filled, self.backbone(filled, None))
        return ObjectiveOutput(losses=losses, memory=memory)

    def _fill_in(self, streams: Streams, sampled: Int[Tensor, "B P"]) -> Streams:
        """Put the samples in the targets' places, and say in the detector's readout which are replacements."""
        readout = streams.readouts["loss"]
        length = streams.readouts[REPLACED].labels.shape[1]
        real = readout.weight > 0
        place = torch.where(real, readout.index, streams.content.count)  # one place beyond takes what is no target

        def put(base: Tensor, values: Tensor) -> Tensor:
            wider = torch.cat([base, base[:, :1]], dim=1)
            return wider.scatter(1, place.clamp(max=base.shape[1]), values.to(base.dtype))[:, :-1]

        content = replace(streams.content, ids=put(streams.content.ids, sampled))
        nothing = streams.content.ids.new_zeros(streams.content.ids.shape[0], length)
        labels = put(nothing, sampled != readout.labels)
        readouts = {**streams.readouts, REPLACED: replace(streams.readouts[REPLACED], labels=labels)}
        return replace(streams, content=content, readouts=readouts)


def sample(logits: Float[Tensor, "B P V"], lots: Float[Tensor, "B P"]) -> Int[Tensor, "B P"]:
    """Draw a token from each softmax by inverting its distribution function at a number in [0, 1)."""
    function = logits.float().softmax(dim=-1).cumsum(dim=-1)
    at = (lots[..., None] * function[..., -1:]).to(function.dtype)
    return torch.searchsorted(function, at, right=True)[..., 0].clamp(max=logits.shape[-1] - 1)
