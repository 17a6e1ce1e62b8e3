"""Layer-wise learning rate decay for fine-tuning: the nearer to the input, the smaller the steps."""

from __future__ import annotations

import re

import torch
from torch import nn

from anyorder.core import RecipeError

from .optimizer import AdamW, parameter_groups

__all__ = ["LayerwiseAdamW", "layer_factors"]

_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")
_EMBEDDINGS = re.compile(r"(?:^|\.)(embedding\.weight|query_embedding|absolute\.(position|segment)\.weight)$")


def layer_factors(model: nn.Module, *, decay: float) -> dict[str, float]:
    """What each parameter's learning rate is multiplied by.

    Layer ``l`` of ``n`` (from 0) has ``decay ** (n - 1 - l)``, the embeddings ``decay ** n``, everything else (the
    heads) 1. A parameter that several layers share counts as the highest one's.

    Args:
        model: holds a backbone whose layers are ``layers.0``, ``layers.1`` and so on, anywhere inside.
        decay: factor from a layer to the one below it.
    """
    names = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    layers = 1 + max((int(match[1]) for name in names if (match := _LAYER.search(name))), default=-1)
    highest: dict[int, int] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        match = _LAYER.search(name)
        above = 0 if _EMBEDDINGS.search(name) else layers
        depth = int(match[1]) + 1 if match else above
        highest[id(parameter)] = max(depth, highest.get(id(parameter), 0))
    return {name: decay ** (layers - highest[id(parameter)]) for name, parameter in model.named_parameters()}


class LayerwiseAdamW(AdamW):
    """:class:`AdamW` whose learning rate falls from layer to layer towards the input.

    What XLNet's ``lr_layer_decay_rate`` means to do (paper, table 8: 0.75 for SQuAD). The official code multiplies
    gradients instead, which Adam undoes but for its epsilon, and it leaves the embeddings at the full rate.

    Args:
        lr: peak learning rate of the heads and the topmost layer.
        decay: factor from a layer to the one below it; 1 is plain AdamW.
        betas, eps, weight_decay, fused: as in :class:`AdamW`.

    Raises:
        RecipeError: a value out of range.
    """

    def __init__(
        self,
        *,
        lr: float = 2e-5,
        decay: float = 0.75,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        fused: bool | None = None,
    ) -> None:
        super().__init__(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, fused=fused)
        if not 0 < decay <= 1:
            raise RecipeError(f"decay is {decay}; it must be above 0 and at most 1", path="optimizer.decay")
        self.decay = decay

    def build(self, model: nn.Module) -> torch.optim.AdamW:
        """The optimiser of the model's trainable parameters: a group a factor, the full rate first."""
        decayed, _ = parameter_groups(model)
        factors = layer_factors(model, decay=self.decay)
        by_rate: dict[tuple[float, float], list[nn.Parameter]] = {}
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                weight_decay = self.weight_decay if name in decayed else 0.0
                by_rate.setdefault((factors[name], weight_decay), []).append(parameter)
        device = next(model.parameters()).device.type
        return torch.optim.AdamW(
            [
                {"params": parameters, "lr": self.lr * factor, "weight_decay": weight_decay}
                for (factor, weight_decay), parameters in sorted(by_rate.items(), key=lambda it: it[0], reverse=True)
            ],
            betas=(self.betas[0], self.betas[1]),
            eps=self.eps,
            fused=device in ("cpu", "cuda", "mps", "xpu") if self.fused is None else self.fused,
        )
