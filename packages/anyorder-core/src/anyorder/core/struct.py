"""Small frozen dataclasses of tensors that move between devices together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor


def map_tensors(value: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """Apply ``function`` to every tensor inside dataclasses, tuples and dicts; everything else is kept."""
    if isinstance(value, Tensor):
        return function(value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: map_tensors(getattr(value, f.name), function) for f in fields(value)})
    if isinstance(value, tuple):
        return tuple(map_tensors(item, function) for item in value)
    if isinstance(value, dict):
        return {key: map_tensors(item, function) for key, item in value.items()}
    return value


class TensorStruct:
    """Mixin of the dataclasses in this package: one ``to`` and one ``map`` for all tensors inside."""

    def map(self, function: Callable[[Tensor], Tensor]) -> Self:
        mapped: Self = map_tensors(self, function)
        return mapped

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Self:
        return self.map(lambda tensor: tensor.to(device, non_blocking=non_blocking))
