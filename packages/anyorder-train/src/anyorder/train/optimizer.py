"""AdamW, with weight decay where it belongs."""

from __future__ import annotations

import torch
from torch import nn

from anyorder.core import RecipeError

__all__ = ["AdamW"]

_NORMS = (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm)


class AdamW:
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019). ``build`` makes the optimiser of a model.

    Parameters of normalisation layers and parameters called ``bias`` (or ``..._bias``) are not decayed, as in XLNet
    (``model_utils.py`` ``AdamWeightDecayOptimizer``, which excludes LayerNorm and bias).

    Args:
        lr: peak learning rate; the schedule multiplies it.
        betas: decay of the first and second moment.
        eps: added to the root of the second moment.
        weight_decay: decay a step, multiplied by the learning rate.
        fused: one kernel for all parameters; None uses it wherever the parameters' device has one.

    Raises:
        RecipeError: a value out of range.
    """

    def __init__(
        self,
        *,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        fused: bool | None = None,
    ) -> None:
        if not lr > 0:
            raise RecipeError(f"lr is {lr}; it must be above 0", path="optimizer.lr")
        if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
            raise RecipeError(
                f"betas are {list(betas)}; two numbers from 0 to under 1 are needed", path="optimizer.betas"
            )
        if not eps > 0:
            raise RecipeError(f"eps is {eps}; it must be above 0", path="optimizer.eps")
        if weight_decay < 0:
            raise RecipeError(f"weight_decay is {weight_decay}; it must be 0 or more", path="optimizer.weight_decay")
        self.lr, self.betas, self.eps, self.weight_decay, self.fused = lr, tuple(betas), eps, weight_decay, fused

    def build(self, model: nn.Module) -> torch.optim.AdamW:
        """The optimiser of the model's trainable parameters, on the device where they lie."""
        decayed, free = parameter_groups(model)
        device = next(model.parameters()).device.type
        fused = device in ("cpu", "cuda", "mps", "xpu") if self.fused is None else self.fused
        groups = [
            {"params": list(decayed.values()), "weight_decay": self.weight_decay},
            {"params": list(free.values()), "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(
            [group for group in groups if group["params"]],
            lr=self.lr,
            betas=(self.betas[0], self.betas[1]),
            eps=self.eps,
            fused=fused,
        )


def parameter_groups(model: nn.Module) -> tuple[dict[str, nn.Parameter], dict[str, nn.Parameter]]:
    """Trainable parameters by name, each once: those that are decayed, and those that are not."""
    norms = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, _NORMS)
        for parameter in module.parameters(recurse=False)
    }
    decayed: dict[str, nn.Parameter] = {}
    free: dict[str, nn.Parameter] = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        last = name.rsplit(".", 1)[-1]
        spared = id(parameter) in norms or last == "bias" or last.endswith("_bias")
        (free if spared else decayed)[name] = parameter
    return decayed, free
