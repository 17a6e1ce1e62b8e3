"""A given beginning, then the order of reading."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from anyorder.core import CONSECUTIVE, Draws, Plan, RecipeError, TokenBatch

from .all_targets import AllTargets, choose_or_all
from .checks import require_within
from .choice import TargetChoice


@dataclass(frozen=True, kw_only=True)
class Prefix:
    """Give the beginning of each row and predict the rest in reading order (a prefix LM).

    The prefix sees all of itself. It is a fraction of the row's tokens, padding not counted, drawn uniformly
    for each row.

    Args:
        min_prefix: least fraction of the row that is given, 0 to 1.
        max_prefix: greatest fraction of the row that is given, ``min_prefix`` to 1.
        targets: which of the tokens after the prefix are predicted; None for all of them. Of a choice those in the
            prefix are dropped.

    Raises:
        RecipeError: a fraction out of range.
    """

    min_prefix: float = 0.25
    max_prefix: float = 0.75
    targets: TargetChoice | None = None

    def __post_init__(self) -> None:
        require_within("min_prefix", self.min_prefix, 0.0, 1.0)
        require_within("max_prefix", self.max_prefix, 0.0, 1.0)
        if self.max_prefix < self.min_prefix:
            raise RecipeError(
                f"max_prefix {self.max_prefix} is below min_prefix {self.min_prefix}; it must not be",
                path="max_prefix",
            )

    @property
    def traits(self) -> frozenset[str]:
        return frozenset({CONSECUTIVE})

    def num_targets(self, length: int) -> int:
        rest = length - math.floor(self.min_prefix * length + 0.5)
        return min(rest, (self.targets or AllTargets()).num_targets(length))

    def sample(self, batch: TokenBatch, *, generator: Draws) -> Plan:
        real = ~batch.padding
        number = real.cumsum(dim=1)  # [B, L], from 1
        fraction = self.min_prefix + (self.max_prefix - self.min_prefix) * generator.rand(1).double()
        given = torch.floor(fraction * real.sum(dim=1, keepdim=True) + 0.5).long()  # [B, 1]
        time = (number - given).clamp(min=0)
        target = choose_or_all(self.targets, batch, generator=generator)
        return Plan.of(time, (time > 0) & target)
