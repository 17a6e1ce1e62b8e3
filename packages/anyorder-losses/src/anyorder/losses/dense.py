"""Dense layers as every head starts them."""

from __future__ import annotations

from torch import nn


def dense(inputs: int, outputs: int, *, bias: bool = True, init_std: float = 0.02) -> nn.Linear:
    """A linear layer with weights from N(0, init_std) and a bias of 0, as the official heads begin."""
    layer = nn.Linear(inputs, outputs, bias=bias)
    nn.init.normal_(layer.weight, std=init_std)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer
