"""The floor of a step: its matrix products alone, replayed on tensors of the same shapes and layouts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["Product", "ProductRecorder", "replay"]

_OPERANDS = {
    "aten::mm": (0, 1),
    "aten::mm.out": (0, 1),
    "aten::bmm": (0, 1),
    "aten::bmm.out": (0, 1),
    "aten::addmm": (1, 2),
    "aten::addmm.out": (1, 2),
    "aten::addmm_": (1, 2),
    "aten::baddbmm": (1, 2),
}
"""Where the two factors stand among each operator's arguments."""


@dataclass(frozen=True)
class _Layout:
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype

    @classmethod
    def of(cls, tensor: Tensor) -> _Layout:
        return cls(tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)

    def tensor(self) -> Tensor:
        """Random numbers in this layout, in which elements may share a place (an expanded gradient)."""
        size = 1 + sum((extent - 1) * step for extent, step in zip(self.shape, self.stride, strict=True))
        return torch.randn(size).to(self.dtype).as_strided(self.shape, self.stride)


@dataclass(frozen=True)
class Product:
    """One matrix product by the layouts of its factors."""

    left: _Layout
    right: _Layout

    @property
    def flops(self) -> int:
        *batch, rows, inner = self.left.shape
        total = 2 * rows * inner * self.right.shape[-1]
        for extent in batch:
            total *= extent
        return total


@dataclass
class ProductRecorder(TorchDispatchMode):
    """Notes every matrix product of what runs inside it, forward and backward."""

    products: list[Product] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        places = _OPERANDS.get(func.name())
        if places is not None:
            left, right = (args[place] for place in places)
            self.products.append(Product(_Layout.of(left), _Layout.of(right)))
        return func(*args, **(kwargs or {}))


def replay(products: list[Product]) -> tuple[Callable[[], None], int]:
    """A function that does the products once, in order, and the floating-point operations it takes.

    Factors of one layout share a tensor, and results go to one buffer a shape, so that nothing but the products costs.
    """
    factors: dict[_Layout, Tensor] = {}
    results: dict[tuple[torch.Size, torch.dtype], Tensor] = {}
    calls: list[tuple[Tensor, Tensor, Tensor]] = []
    for product in products:
        left = factors.setdefault(product.left, product.left.tensor())
        right = factors.setdefault(product.right, product.right.tensor())
        shape = torch.Size((*left.shape[:-1], right.shape[-1]))
        key = (shape, left.dtype)
        out = results.setdefault(key, torch.empty(shape, dtype=left.dtype))
        calls.append((left, right, out))

    def run() -> None:
        with torch.no_grad():
            for left, right, out in calls:
                torch.matmul(left, right, out=out)

    return run, sum(product.flops for product in products)
