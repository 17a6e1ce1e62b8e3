"""The order of reading."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from anyorder.core import CONSECUTIVE, Draws, Plan, TokenBatch

from .all_targets import AllTargets, choose_or_all
from .choice import TargetChoice


@dataclass(frozen=True, kw_only=True)
class LeftToRight:
    """Predict every token from those before it, in reading order (a causal LM).

    Args:
        targets: which tokens are predicted; None for all of them.
    """

    targets: TargetChoice | None = None

    @property
    def traits(self) -> frozenset[str]:
        return frozenset({CONSECUTIVE})

    def num_targets(self, length: int) -> int:
        return (self.targets or AllTargets()).num_targets(length)

    def sample(self, batch: TokenBatch, *, generator: Draws) -> Plan:
        time = torch.arange(1, batch.length + 1, device=batch.ids.device).repeat(batch.rows, 1)
        return Plan.of(time, choose_or_all(self.targets, batch, generator=generator))
