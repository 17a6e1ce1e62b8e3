"""What a yardstick is: a question about held-out text that models of different objectives can be asked alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from anyorder.core import TokenBatch

from ..objective import Objective

__all__ = ["Measurement", "Score", "Standing", "Yardstick", "spread_of"]

Kind = Literal["exact", "bound", "undefined"]


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What a yardstick's number is for one model.

    Attributes:
        kind: ``exact``: what the model itself assigns; ``bound``: its loss is at most this; ``undefined``: it assigns
            no such probability.
        sees: what the model could see of the window when it predicted.
        reason: why it is undefined or a bound, or what to bear in mind.
    """

    kind: Kind
    sees: str = ""
    reason: str = ""

    @property
    def defined(self) -> bool:
        return self.kind != "undefined"


@dataclass(frozen=True, kw_only=True)
class Score:
    """Negative log-likelihood of the hidden tokens, window by window, so that models can be compared in pairs.

    Attributes:
        nats: of each window, summed over its hidden tokens.
        tokens: hidden tokens of each window.
        bytes: UTF-8 bytes of text that they stand for.
    """

    nats: tuple[float, ...]
    tokens: tuple[int, ...]
    bytes: tuple[int, ...]

    @classmethod
    def of(cls, nats: Float[Tensor, " N"], tokens: Int[Tensor, " N"], sizes: Int[Tensor, " N"]) -> Score:
        return cls(nats=tuple(nats.tolist()), tokens=tuple(tokens.tolist()), bytes=tuple(sizes.tolist()))

    def __add__(self, other: Score) -> Score:
        """Of both sets of hidden tokens, window by window."""
        return Score(
            nats=tuple(a + b for a, b in zip(self.nats, other.nats, strict=True)),
            tokens=tuple(a + b for a, b in zip(self.tokens, other.tokens, strict=True)),
            bytes=tuple(a + b for a, b in zip(self.bytes, other.bytes, strict=True)),
        )

    @property
    def nats_per_token(self) -> float:
        return _ratio(sum(self.nats), sum(self.tokens))

    @property
    def bits_per_token(self) -> float:
        return self.nats_per_token / math.log(2)

    @property
    def bits_per_byte(self) -> float:
        return _ratio(sum(self.nats), sum(self.bytes)) / math.log(2)

    @property
    def standard_error(self) -> float:
        """Of ``bits_per_token``, from the spread over windows: noise of the measurement, not of training.

        That of a ratio of means, ``sqrt(N / (N - 1) * sum((y_i - r x_i)^2)) / sum(x)`` (Cochran 1977, eq. 2.46).
        """
        return ratio_error(self.nats, self.tokens) / math.log(2)


def ratio_error(values: tuple[float, ...], counts: tuple[int, ...]) -> float:
    """Standard error of ``sum(values) / sum(counts)`` over independent windows; NaN with fewer than two."""
    used = [(value, count) for value, count in zip(values, counts, strict=True) if count]
    if len(used) < 2:
        return math.nan
    ratio = _ratio(sum(value for value, _ in used), sum(count for _, count in used))
    squares = sum((value - ratio * count) ** 2 for value, count in used)
    return math.sqrt(len(used) / (len(used) - 1) * squares) / sum(count for _, count in used)


def spread_of(samples: Sequence[Score]) -> float | None:
    """Standard deviation of a window's bits a token over samples of it, pooled over windows; None for one sample."""
    variances = []
    for nats, tokens in zip(zip(*(score.nats for score in samples), strict=True), samples[0].tokens, strict=True):
        if tokens and len(nats) > 1:
            mean = math.fsum(nats) / len(nats)
            variances.append(math.fsum((one - mean) ** 2 for one in nats) / (len(nats) - 1) / tokens**2)
    return math.sqrt(math.fsum(variances) / len(variances)) / math.log(2) if variances else None


def _ratio(above: float, below: float) -> float:
    return above / below if below else math.nan


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What a yardstick found for one model.

    Attributes:
        yardstick: its name.
        standing: what the number is, and what the model could see.
        scores: the score of each part, such as one span length; ``all`` is the headline. Empty where undefined.
        spread: standard deviation, in bits a token, of one window's score from one sampled order (or noise level) to
            another; None where nothing is sampled.
        seconds: how long it took.
    """

    yardstick: str
    standing: Standing
    scores: Mapping[str, Score]
    spread: float | None = None
    seconds: float = 0.0

    @property
    def headline(self) -> Score | None:
        return self.scores.get("all")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> Measurement:
        scores = {
            part: Score(nats=tuple(s["nats"]), tokens=tuple(s["tokens"]), bytes=tuple(s["bytes"]))
            for part, s in tree["scores"].items()
        }
        return cls(
            yardstick=tree["yardstick"],
            standing=Standing(**tree["standing"]),
            scores=scores,
            spread=tree.get("spread"),
            seconds=tree["seconds"],
        )


@runtime_checkable
class Yardstick(Protocol):
    """Measures a model on held-out windows. Which tokens are hidden depends on windows and seed, never on the model."""

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def says(self) -> str:
        """What the number says, in a sentence for the report."""
        ...

    @property
    def kinds(self) -> str:
        """For which models the number is exact, a bound or undefined, for the report."""
        ...

    def defined_for(self, objective: Objective) -> Standing:
        """Whether the model's own parts can express the question, and what it sees when asked."""
        ...

    def measure(
        self, objective: Objective, windows: TokenBatch, *, piece_bytes: Int[Tensor, " V"], seed: int = 0
    ) -> Measurement:
        """Ask the model about every window.

        Args:
            objective: the model. Its own mask builder hides the tokens; nothing is learnt.
            windows: independent stretches of held-out text, one a row, on the CPU; with the blocks that models were
                trained with, so that what context knows of other context is nothing new to them.
            piece_bytes: bytes of text that each piece stands for.
            seed: decides which tokens are hidden.
        """
        ...
