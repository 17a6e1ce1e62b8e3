"""The official optimiser: Adam as XLNet's code means it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, overload

import torch
from torch import Tensor, nn

from anyorder.core import RecipeError

from .optimizer import AdamW, parameter_groups

__all__ = ["OfficialAdam", "XLNetAdam"]

_ALWAYS_DECAYED = ("r_w_bias", "r_r_bias", "r_s_bias")
_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")
_STACKED = (*_ALWAYS_DECAYED, "seg_embed")
"""Official variables that hold all layers at once, which its layer-wise decay therefore passes over."""


class OfficialAdam(torch.optim.Optimizer):
    """Both updates of ``model_utils.py`` ``get_train_op``. ``m`` and ``v`` are the moments of the gradient ``g``.

    ``corrected`` false (``AdamWeightDecayOptimizer``), without correction of the moments' start at zero:

        p <- p - lr (m / (sqrt(v) + eps) + weight_decay p)

    ``corrected`` true (TensorFlow's Adam), where eps is added to the uncorrected root, unlike in torch:

        p <- p - lr sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + eps)

    A group's ``gradient_scale`` multiplies its gradient, after whatever clipping there was.

    Args:
        params: parameters, or groups of them.
        lr, betas, eps, weight_decay, corrected, gradient_scale: defaults of the groups.
    """

    def __init__(
        self,
        params: Iterable[Any],
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        corrected: bool = False,
        gradient_scale: float = 1.0,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "corrected": corrected,
            "gradient_scale": gradient_scale,
        }
        super().__init__(params, defaults)

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Make one update. Parameters without a gradient stay as they are, moments too."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, group)
        return loss

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros(())  # on the CPU, so that nothing waits for the device
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        beta1, beta2 = group["betas"]
        gradient = parameter.grad
        assert gradient is not None
        if group["gradient_scale"] != 1.0:
            gradient = gradient * group["gradient_scale"]
        state["step"] += 1
        state["exp_avg"].lerp_(gradient, 1 - beta1)
        state["exp_avg_sq"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        rate: float = group["lr"]
        if group["corrected"]:
            step = state["step"].item()
            rate *= (1 - beta2**step) ** 0.5 / (1 - beta1**step)
        update = state["exp_avg"] / (state["exp_avg_sq"].sqrt() + group["eps"])
        if group["weight_decay"]:
            update.add_(parameter, alpha=group["weight_decay"])
        parameter.sub_(update, alpha=rate)


class XLNetAdam(AdamW):
    """Settings of :class:`OfficialAdam`; ``build`` makes the optimiser of a model.

    As in the official code, any weight decay chooses the update without correction, and none chooses TensorFlow's Adam.
    Decay spares norms and biases, but not ``r_w_bias``, ``r_r_bias`` and ``r_s_bias``. The intended form is
    followed: the learning rate of a step is that of the steps before it (:class:`XLNetSchedule`), where the
    released code reads a counter that may or may not have been raised already.

    Args:
        lr: peak learning rate; the schedule multiplies it.
        betas: decay of the first and second moment.
        eps: added to the root of the second moment.
        weight_decay: decay a step, multiplied by the learning rate.
        gradient_layer_decay: the official ``lr_layer_decay_rate``: layer ``l`` of ``n`` has its clipped gradient
            multiplied by this to the power ``n - 1 - l``. Adam undoes nearly all of that, so it is here for
            comparison with the official code only; :class:`LayerwiseAdamW` scales the learning rate.

    Raises:
        RecipeError: a value out of range.
    """

    def __init__(
        self,
        *,
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        gradient_layer_decay: float = 1.0,
    ) -> None:
        super().__init__(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        if not 0 < gradient_layer_decay <= 1:
            raise RecipeError(
                f"gradient_layer_decay is {gradient_layer_decay}; it must be above 0 and at most 1",
                path="optimizer.gradient_layer_decay",
            )
        self.gradient_layer_decay = gradient_layer_decay

    def build(self, model: nn.Module) -> OfficialAdam:  # type: ignore[override]
        """The optimiser of the model's trainable parameters."""
        decayed, free = parameter_groups(model)
        layers = 1 + max((_layer(name) for name in (*decayed, *free)), default=-1)
        groups: dict[tuple[float, float], list[nn.Parameter]] = {}
        for name, parameter in (*decayed.items(), *free.items()):
            last = name.rsplit(".", 1)[-1]
            decay = self.weight_decay if name in decayed or last in _ALWAYS_DECAYED else 0.0
            layer = layers - 1 if last in _STACKED else _layer(name)
            scale = self.gradient_layer_decay ** (layers - 1 - layer) if layer >= 0 else 1.0
            groups.setdefault((decay, scale), []).append(parameter)
        return OfficialAdam(
            [
                {"params": parameters, "weight_decay": decay, "gradient_scale": scale}
                for (decay, scale), parameters in groups.items()
            ],
            lr=self.lr,
            betas=(self.betas[0], self.betas[1]),
            eps=self.eps,
            corrected=self.weight_decay == 0,
        )


def _layer(name: str) -> int:
    """The layer that a parameter belongs to, or -1."""
    match = _LAYER.search(name)
    return int(match[1]) if match else -1
