"""No memory: every segment is read on its own."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from anyorder.core import MemoryState, Slots

from .segment import SegmentMemory


class NoMemory:
    """Remembers nothing: a state of length zero that stays so."""

    reuse_len: int | None = None

    def empty(
        self, *, rows: int, layers: int, width: int, device: torch.device | str, dtype: torch.dtype
    ) -> MemoryState:
        return SegmentMemory(mem_len=0).empty(rows=rows, layers=layers, width=width, device=device, dtype=dtype)

    def extend(
        self, state: MemoryState, layer_inputs: tuple[Float[Tensor, "B K D"], ...], *, content: Slots
    ) -> MemoryState:
        return state
