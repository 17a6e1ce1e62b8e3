"""How many tokens of a row are targets, and taking exactly so many."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from anyorder.core import TokenBatch


def most_targets(length: int, *, k: float) -> int:
    """One token in ``k`` of a full row, rounded; at least one."""
    return min(length, max(1, math.floor(length / k + 0.5)))


def row_goals(batch: TokenBatch, *, k: float) -> Int[Tensor, "B 1"]:
    """One token in ``k`` of each row, padding not counted, so that padding changes nothing; at least one."""
    tokens = (~batch.padding).sum(dim=1, keepdim=True)
    return torch.floor(tokens.double() / k + 0.5).long().clamp(min=1)


def take_first(
    score: Int[Tensor, "B L"], eligible: Bool[Tensor, "B L"], goal: Int[Tensor, "B 1"], *, most: int
) -> Bool[Tensor, "B L"]:
    """The ``goal`` eligible tokens of least score, or all if they are fewer.

    Args:
        score: distinct numbers in each row, none the greatest int64.
        eligible: tokens that may be taken.
        goal: how many to take in each row.
        most: static bound of the goals. Finding so few is many times faster than sorting the row.
    """
    last = torch.iinfo(score.dtype).max
    first = torch.where(eligible, score, last).topk(most, dim=1, largest=False).indices  # [B, most]
    taken = torch.arange(most, device=score.device) < goal
    return torch.zeros_like(eligible).scatter(1, first, taken) & eligible
