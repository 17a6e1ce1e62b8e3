"""Picking the targets of every row into the static ``P`` places of a readout."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from anyorder.core import DataError, Plan, TokenBatch


@dataclass(frozen=True, kw_only=True)
class Targets:
    """The targets of every row, in ascending position.

    Attributes:
        index: where each target stands; 0 where ``valid`` is false.
        valid: false where the row has fewer than ``P`` targets.
        labels: token ids; 0 where ``valid`` is false.
        weight: weights of the plan; 0 where ``valid`` is false.
    """

    index: Int[Tensor, "B P"]
    valid: Bool[Tensor, "B P"]
    labels: Int[Tensor, "B P"]
    weight: Float[Tensor, "B P"]

    @classmethod
    def of(cls, batch: TokenBatch, plan: Plan, *, num_targets: int) -> Targets:
        """Collect the targets of a plan. Raises ``DataError`` where a row has more than ``num_targets``."""
        index, valid = take_targets(plan.target, num_targets=num_targets)
        return cls(
            index=index,
            valid=valid,
            labels=batch.ids.gather(1, index).masked_fill(~valid, 0),
            weight=plan.weight.gather(1, index).masked_fill(~valid, 0.0),
        )


def take_targets(target: Bool[Tensor, "B L"], *, num_targets: int) -> tuple[Int[Tensor, "B P"], Bool[Tensor, "B P"]]:
    """The places of the true entries of every row, ascending, and which of the ``P`` places are filled.

    On an accelerator the count is asserted there, so that nothing waits for the device.

    Raises:
        DataError: a row has more than ``num_targets`` (on the CPU).
    """
    rows, length = target.shape
    rank = target.long().cumsum(dim=1)  # [B, L], of a target: 1, 2, ...
    count = rank[:, -1:] if length else rank.new_zeros(rows, 1)
    _require_room(count, num_targets)
    spare = num_targets  # one place more than is returned takes what is no target
    place = torch.where(target, rank - 1, spare).clamp(max=spare)
    index = rank.new_zeros(rows, num_targets + 1)
    index.scatter_(1, place, torch.arange(length, device=target.device).expand_as(place))
    valid = torch.arange(num_targets, device=target.device) < count
    return index[:, :num_targets].masked_fill(~valid, 0), valid


def _require_room(count: Int[Tensor, "B 1"], num_targets: int) -> None:
    remedy = "the order's num_targets(length) must be the most that its sample() ever marks"
    if count.device.type != "cpu":
        fits = (count <= num_targets).all()
        torch._assert_async(fits, f"a row has more than {num_targets} targets: {remedy}")
        return
    over = (count[:, 0] > num_targets).nonzero()
    if len(over):
        row = int(over[0])
        raise DataError(f"row {row} has {int(count[row])} targets, but the readout has {num_targets} places: {remedy}")
