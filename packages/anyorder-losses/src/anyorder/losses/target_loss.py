"""How the losses of targets are summed."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from anyorder.core import LossOutput, Readout


def target_loss(losses: Float[Tensor, " N"], readout: Readout) -> LossOutput:
    """Weighted sum of the loss of each prediction, rows one after another.

    A prediction of weight 0 adds nothing, whatever its loss.
    """
    losses = losses.view_as(readout.labels)
    weight = readout.weight.to(losses.dtype)
    counted = torch.where(weight > 0, losses, torch.zeros_like(losses))
    return LossOutput(loss_sum=(counted * weight).sum(), weight_sum=readout.weight_sum, per_target=losses.detach())
