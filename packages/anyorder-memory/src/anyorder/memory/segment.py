"""Transformer-XL's segment memory: the layer inputs of earlier tokens, kept without gradient."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from anyorder.core import MemoryState, RecipeError, Slots


class SegmentMemory:
    """Keeps the last ``mem_len`` layer inputs (Dai et al. 2019, section 3.2; ``modeling.py`` ``_cache_mem``).

    Args:
        mem_len: most slots remembered; 0 remembers nothing.
        reuse_len: how many leading tokens of a segment are kept, which must be how far apart segments start; None
            keeps all of them.
        initial: what stands for the past before there is one: ``empty`` slots that nobody sees, or ``zeros`` that
            every reader may attend to, as in the official code.
        segment_id: segment of remembered slots, 0 in the official code; None keeps each slot's own.
    """

    def __init__(
        self,
        *,
        mem_len: int,
        reuse_len: int | None = None,
        initial: Literal["empty", "zeros"] = "empty",
        segment_id: int | None = 0,
    ) -> None:
        if mem_len < 0:
            raise RecipeError(f"mem_len is {mem_len}; it must be 0 (no memory) or more", path="memory.mem_len")
        if reuse_len is not None and reuse_len < 1:
            raise RecipeError(
                f"reuse_len is {reuse_len}; it must be at least 1, or null to keep whole segments",
                path="memory.reuse_len",
            )
        self.mem_len, self.reuse_len = mem_len, reuse_len
        self.initial, self.segment_id = initial, segment_id

    def empty(
        self, *, rows: int, layers: int, width: int, device: torch.device | str, dtype: torch.dtype
    ) -> MemoryState:
        """The state before the first segment: ``mem_len`` slots from the start, so that shapes never change.

        Nor do strides, here and in ``extend``: a compiled step is compiled once.
        """
        position = torch.arange(-self.mem_len, 0, device=device).repeat(rows, 1)
        seen = 0 if self.initial == "zeros" else -1
        return MemoryState(
            layers=tuple(torch.zeros(rows, self.mem_len, width, device=device, dtype=dtype) for _ in range(layers)),
            position=position,
            doc=torch.full_like(position, seen),
            segment=torch.full_like(position, self.segment_id or 0),
        )

    def extend(
        self, state: MemoryState, layer_inputs: tuple[Float[Tensor, "B K D"], ...], *, content: Slots
    ) -> MemoryState:
        """Append the leading ``reuse_len`` slots of a segment and keep the last ``mem_len`` in all.

        The first slots of a segment are its tokens in order, whatever a mask builder appends after them.
        """
        tokens = content.high - content.low
        reuse = tokens if self.reuse_len is None else min(self.reuse_len, tokens)

        def keep(past: Tensor, now: Tensor) -> Tensor:
            kept = min(self.mem_len, past.shape[1] + reuse)
            old = max(kept - reuse, 0)
            new = now[:, reuse - (kept - old) : reuse].detach().to(past.dtype)
            return torch.cat([past[:, past.shape[1] - old :], new], dim=1)

        segment = None
        if state.segment is not None:
            now = state.position.new_zeros(content.position.shape) if content.segment is None else content.segment
            now = now if self.segment_id is None else torch.full_like(now, self.segment_id)
            segment = keep(state.segment, now)
        return MemoryState(
            layers=tuple(keep(past, now) for past, now in zip(state.layers, layer_inputs, strict=True)),
            position=keep(state.position, content.position) - reuse,
            doc=keep(state.doc, content.doc),
            segment=segment,
            contiguous=state.contiguous and content.low == 0,
        )
