"""The order of reading, backwards."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from anyorder.core import PERMUTATION, Draws, Plan, TokenBatch

from .all_targets import AllTargets, choose_or_all
from .choice import TargetChoice


@dataclass(frozen=True, kw_only=True)
class RightToLeft:
    """Predict from the tokens after, the last one first: the backward half of UniLM's and ELMo's models.

    Args:
        targets: which tokens are predicted; None for all of them.
    """

    targets: TargetChoice | None = None

    @property
    def traits(self) -> frozenset[str]:
        return frozenset({PERMUTATION})

    def num_targets(self, length: int) -> int:
        return (self.targets or AllTargets()).num_targets(length)

    def sample(self, batch: TokenBatch, *, generator: Draws) -> Plan:
        time = torch.arange(batch.length, 0, -1, device=batch.ids.device).repeat(batch.rows, 1)
        return Plan.of(time, choose_or_all(self.targets, batch, generator=generator))
