"""Spans in random order, each read from left to right."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.functional import pad

from anyorder.core import PERMUTATION, Draws, Plan, TokenBatch

from .choice import TargetChoice
from .ngram_spans import NgramSpans
from .permutation import plan_from_ranks


@dataclass(frozen=True, kw_only=True)
class SpanBlocks:
    """Give the text around some spans; predict the spans in random order, inside each left to right (GLM, eq. 1).

    Runs of neighbouring targets are one span, whatever chose them. Unlike GLM, whose single mask token hides how long
    a span is, the predictions know their places, as everywhere here.

    Args:
        targets: which tokens are predicted; None for ``NgramSpans()``.
    """

    targets: TargetChoice | None = None

    @property
    def choice(self) -> TargetChoice:
        """What chooses the targets."""
        return NgramSpans() if self.targets is None else self.targets

    @property
    def traits(self) -> frozenset[str]:
        return frozenset({PERMUTATION})

    def num_targets(self, length: int) -> int:
        return self.choice.num_targets(length)

    def sample(self, batch: TokenBatch, *, generator: Draws) -> Plan:
        target = self.choice.choose(batch, generator.bits(batch.length), generator=generator)
        begins = target != pad(target[:, :-1], (1, 0))  # a span, and the text after one
        span = begins.long().cumsum(dim=1)  # [B, L]
        turn = generator.permutation(batch.length + 1).gather(1, span)
        index = torch.arange(batch.length, device=span.device)
        return plan_from_ranks(batch, turn * batch.length + index, target)
