"""Plans that put a question about hidden tokens, by what else the model is shown."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from anyorder.core import Draws, Plan, TokenBatch

__all__ = ["in_turn", "left_to_right", "one_pass_each", "together"]


def together(batch: TokenBatch, hidden: Bool[Tensor, "B L"]) -> list[Plan]:
    """All else is given; the hidden tokens are predicted at once, none knowing another."""
    return [Plan.of(hidden.long(), hidden)]


def in_turn(batch: TokenBatch, hidden: Bool[Tensor, "B L"], *, context: Draws | None = None) -> list[Plan]:
    """All else is known first; the hidden tokens follow from left to right, each knowing those before it.

    Args:
        batch: the windows.
        hidden: tokens to predict.
        context: None: the rest is given and sees itself whole. Draws: the rest has a random order of its own, for
            models that never saw an unordered context.
    """
    rank = hidden.long().cumsum(dim=1)
    if context is None:
        return [Plan.of(rank * hidden, hidden)]
    key = context.rand(batch.length) + hidden  # hidden tokens sort last, whatever their key
    before = key.argsort(dim=1).argsort(dim=1) + 1  # 1, 2, ... by key
    given = (~hidden).sum(dim=1, keepdim=True)
    return [Plan.of(torch.where(hidden, given + rank, before), hidden)]


def one_pass_each(batch: TokenBatch, hidden: Bool[Tensor, "B L"]) -> list[Plan]:
    """As ``in_turn``, for models that predict all hidden tokens at once: a plan for each, with those before it given.

    In the plan of the ``j``-th hidden token all later ones are hidden too, but only the ``j``-th counts.
    """
    rank = hidden.long().cumsum(dim=1)
    plans = []
    for turn in range(1, int(rank.max()) + 1):
        still = hidden & (rank >= turn)
        plans.append(Plan.of(still.long(), still, (still & (rank == turn)).float()))
    return plans


def left_to_right(
    batch: TokenBatch, hidden: Bool[Tensor, "B L"], *, given: Int[Tensor, "B 1"] | None = None
) -> list[Plan]:
    """Every token is known right after the one before it; the hidden ones are predicted from what is to their left.

    Args:
        batch: the windows.
        hidden: tokens to predict.
        given: how many leading tokens are given and see each other; none by default.
    """
    place = torch.arange(1, batch.length + 1).expand_as(batch.ids)
    time = place if given is None else (place - given).clamp(min=0)
    return [Plan.of(time, hidden)]
