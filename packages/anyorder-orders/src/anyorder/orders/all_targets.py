"""Predicting everything."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Bool, Int
from torch import Tensor

from anyorder.core import Draws, TokenBatch

from .choice import TargetChoice


@dataclass(frozen=True, kw_only=True)
class AllTargets:
    """Predict every token that is not fixed: the whole likelihood of a row, with no context given."""

    def num_targets(self, length: int) -> int:
        return length

    def choose(self, batch: TokenBatch, order: Int[Tensor, "B L"], *, generator: Draws) -> Bool[Tensor, "B L"]:
        return ~batch.fixed & ~batch.padding


def choose_or_all(targets: TargetChoice | None, batch: TokenBatch, *, generator: Draws) -> Bool[Tensor, "B L"]:
    """The targets of a choice under a uniform order, or all of them without one."""
    if targets is None:
        return ~batch.fixed & ~batch.padding
    return targets.choose(batch, generator.bits(batch.length), generator=generator)
