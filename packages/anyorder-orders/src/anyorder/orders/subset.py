"""Masked-LM targets: a subset predicted in one shot."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool
from torch import Tensor

from anyorder.core import JOINT, ONE_SHOT, Draws, Plan, TokenBatch

from .checks import require_at_least, require_one_of, require_within
from .goals import most_targets, row_goals, take_first
from .ngram_spans import NgramSpans
from .units import Unit, Units

SubsetUnit = Literal["tokens", "words", "spans", "word_spans"]
_MAX_N = 5


@dataclass(frozen=True, kw_only=True)
class Subset:
    """Predict a random part of the tokens all at once, all else being given (BERT, a denoising auto-encoder).

    Args:
        rate: fraction of a row's tokens that are targets, above 0 and at most 1; at least one token.
        unit: what is drawn: single 'tokens', whole 'words' (the last one may be cut short at the goal),
            'spans' of neighbouring tokens or 'word_spans' of neighbouring words, as ``NgramSpans`` draws them
            with ``k = 1/rate``.
        max_n: longest span, in tokens or words; None for 5. Only for spans.
        context: 'given' before the targets, or known 'together' with them, at one time: then mask builders that hide
            targets in the input let the context see where they are, as BERT does, beside ordered plans.

    Raises:
        RecipeError: a value out of range.
    """

    rate: float = 0.15
    unit: SubsetUnit = "tokens"
    max_n: int | None = None
    context: Literal["given", "together"] = "given"

    def __post_init__(self) -> None:
        require_within("rate", self.rate, 0.0, 1.0, open_low=True)
        require_one_of("unit", self.unit, SubsetUnit)
        require_one_of("context", self.context, Literal["given", "together"])
        if self.max_n is not None:
            require_at_least("max_n", self.max_n, 1)
            if self.unit in ("tokens", "words"):
                warnings.warn(f"max_n has no effect with unit {self.unit!r}", stacklevel=3)

    @property
    def traits(self) -> frozenset[str]:
        return frozenset({ONE_SHOT} if self.context == "given" else ())

    @property
    def demands(self) -> frozenset[str]:
        return frozenset({JOINT} if self.context == "together" else ())

    def num_targets(self, length: int) -> int:
        return most_targets(length, k=1 / self.rate)

    def sample(self, batch: TokenBatch, *, generator: Draws) -> Plan:
        target = self._choose(batch, generator=generator)
        return Plan.of(target.long() if self.context == "given" else torch.ones_like(batch.ids), target)

    def _choose(self, batch: TokenBatch, *, generator: Draws) -> Bool[Tensor, "B L"]:
        order = generator.bits(batch.length)
        if self.unit in ("spans", "word_spans"):
            unit: Unit = "words" if self.unit == "word_spans" else "tokens"
            spans = NgramSpans(k=1 / self.rate, max_n=self.max_n or _MAX_N, unit=unit)
            return spans.choose(batch, order, generator=generator)
        if self.unit == "words":  # one random number a word, its tokens told apart by their places
            index = torch.arange(batch.length, device=order.device)
            order = (order.gather(1, Units.of(batch, "words").number) >> 32) * batch.length + index
        eligible = ~batch.fixed & ~batch.padding
        most = self.num_targets(batch.length)
        return take_first(order, eligible, row_goals(batch, k=1 / self.rate), most=most)
