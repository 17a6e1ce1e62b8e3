"""Plans that put a question about hidden tokens, by what else the model is shown."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from anyorder.core import Draws, Plan, TokenBatch

__all__ = ["at_noise_level", "in_order", "in_turn", "left_to_right", "one_pass_each", "together"]


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
    place = torch.arange(batch.length).expand_as(batch.ids)
    return in_order(batch, hidden, place, context=context)


def in_order(
    batch: TokenBatch, hidden: Bool[Tensor, "B L"], order: Int[Tensor, "B L"], *, context: Draws | None = None
) -> list[Plan]:
    """As ``in_turn``, the hidden tokens following by ``order``: distinct numbers in a row, the least first."""
    rank = _ranks(hidden, order)
    if context is None:
        return [Plan.of(rank, hidden)]
    before, given = _ordered_context(batch, hidden, context)
    return [Plan.of(torch.where(hidden, given + rank, before), hidden)]


def at_noise_level(
    batch: TokenBatch,
    hidden: Bool[Tensor, "B L"],
    order: Int[Tensor, "B L"],
    *,
    level: Float[Tensor, "B 1"],
    context: Draws | None = None,
) -> Plan:
    """The last ``n`` hidden tokens of an order predicted at once, all else being given; each weighs ``D / n``.

    ``D`` tokens of a row are hidden; ``n``, from 1 to ``D``, is uniform if ``level`` is, in [0, 1).
    """
    rank = _ranks(hidden, order)
    most = hidden.sum(dim=1, keepdim=True)  # [B, 1], D
    count = ((level * most).long() + 1).minimum(most)
    target = hidden & (rank > most - count)
    weight = target * (most.double() / count.clamp(min=1))
    if context is None:
        return Plan.of(target.long(), target, weight)
    before, given = _ordered_context(batch, target, context)
    return Plan.of(torch.where(target, given + 1, before), target, weight)


def one_pass_each(
    batch: TokenBatch, hidden: Bool[Tensor, "B L"], *, order: Int[Tensor, "B L"] | None = None
) -> list[Plan]:
    """As ``in_turn``, for models that predict all hidden tokens at once: a plan for each, with those before it given.

    In the plan of the ``j``-th hidden token all later ones are hidden too, but only the ``j``-th counts.

    Args:
        batch: the windows.
        hidden: tokens to predict.
        order: distinct numbers in a row, the least first; from left to right by default.
    """
    rank = hidden.long().cumsum(dim=1) if order is None else _ranks(hidden, order)
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


def _ranks(chosen: Bool[Tensor, "B L"], order: Int[Tensor, "B L"]) -> Int[Tensor, "B L"]:
    """1, 2, ... for the chosen tokens by order, 0 for the others."""
    last = torch.iinfo(order.dtype).max
    return (torch.where(chosen, order, last).argsort(dim=1, stable=True).argsort(dim=1) + 1) * chosen


def _ordered_context(
    batch: TokenBatch, hidden: Bool[Tensor, "B L"], context: Draws
) -> tuple[Int[Tensor, "B L"], Int[Tensor, "B 1"]]:
    """A random order of what is not hidden, 1, 2, ..., and how much of it there is in each row."""
    key = context.rand(batch.length) + hidden  # hidden tokens sort last, whatever their key
    return key.argsort(dim=1).argsort(dim=1) + 1, (~hidden).sum(dim=1, keepdim=True)
