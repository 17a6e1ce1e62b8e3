"""Dropout that spends sixteen random bits an element: on a CPU, drawing the numbers is most of what dropout costs."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int16
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


def draw_bits(shape: torch.Size, *, generator: torch.Generator | None = None) -> Int16[Tensor, "..."]:
    """Sixteen random bits an element, on the CPU, from torch's default generator unless another is given.

    Four elements share one 64-bit draw, which is several times as fast as ``bernoulli_``.
    """
    size = shape.numel()
    bits = torch.empty(-(-size // 4), dtype=torch.int64)
    bits.random_(torch.iinfo(torch.int64).min, None, generator=generator)
    return bits.view(torch.int16)[:size].view(shape)


def survivors(bits: Int16[Tensor, "..."], probability: float, *, dtype: torch.dtype) -> Float[Tensor, "..."]:
    """1 where an element is kept, 0 where it is dropped, which happens with ``probability`` to one part in 65,536.

    Numbers of the dtype that they multiply: a product with booleans, or a choice by them, takes six times as long.
    """
    return torch.ge(bits, round(probability * 65536) - 32768, out=torch.empty(bits.shape, dtype=dtype))


class Dropout(nn.Module):
    """``nn.Dropout``, with ``draw_bits`` on a CPU.

    Args:
        p: probability of an element to be dropped.
    """

    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        self.p = p

    def forward(self, states: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        if not self.training or self.p == 0.0:
            return states
        if states.device.type != "cpu" or torch.compiler.is_compiling():
            return nn.functional.dropout(states, self.p)
        dropped: Tensor = _BitDropout.apply(states, self.p)  # type: ignore[no-untyped-call]
        return dropped

    def extra_repr(self) -> str:
        return f"p={self.p}"


class _BitDropout(torch.autograd.Function):
    """Keeps the bits for the backward pass: half the size of the numbers they stand for."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, probability: float) -> Tensor:
        bits = draw_bits(states.shape)
        ctx.save_for_backward(bits)
        ctx.probability, ctx.scale = probability, 1.0 / (1.0 - probability) if probability < 1.0 else 0.0
        return survivors(bits, probability, dtype=states.dtype).mul_(states).mul_(ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (bits,) = ctx.saved_tensors
        return survivors(bits, ctx.probability, dtype=gradient.dtype).mul_(gradient).mul_(ctx.scale), None
