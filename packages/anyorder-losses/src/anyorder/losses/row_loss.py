"""What a head for whole rows returns, and how its losses are summed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from anyorder.core import LossOutput


@dataclass(frozen=True, kw_only=True)
class RowOutput:
    """Predictions of a head, and the loss where labels were given.

    Attributes:
        logits: class scores ``[B, C]``, values ``[B]``, or scores of choices ``[B, C]``.
        loss: sum over rows, and the weight behind it.
    """

    logits: Tensor
    loss: LossOutput | None = None


def row_loss(
    losses: Float[Tensor, " B"], weight: Float[Tensor, " B"] | None, *, metrics: Mapping[str, Tensor] | None = None
) -> LossOutput:
    """Sum the losses of rows. A row of weight 0 (one that fills up a batch) adds nothing, whatever its loss.

    Args:
        losses: of each row.
        weight: of each row; 1 for all where None.
        metrics: values of each row, summed with the same weight.
    """
    weight = torch.ones_like(losses) if weight is None else weight.to(losses.dtype)

    def total(values: Tensor) -> Tensor:
        return (torch.where(weight > 0, values.to(losses.dtype), torch.zeros_like(losses)) * weight).sum()

    return LossOutput(
        loss_sum=total(losses),
        weight_sum=weight.sum(),
        per_target=losses.detach()[:, None],
        metrics={name: total(values).detach() for name, values in (metrics or {}).items()},
    )


def wide(logits: Tensor) -> Tensor:
    """Half precision is widened before a softmax or a square."""
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
