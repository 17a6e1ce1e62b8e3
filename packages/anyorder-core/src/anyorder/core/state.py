"""What a model remembers of earlier segments."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from .slots import QUERY_ID, Slots
from .struct import TensorStruct

MEMORY_BIRTH = -1


@dataclass(frozen=True, kw_only=True)
class MemoryState(TensorStruct):
    """What every layer keeps of ``M`` earlier slots; always detached.

    Attributes:
        layers: the inputs of each layer, in layer order; or, where ``projected``, its keys and values.
        position: places in reading order relative to the segment to come: ``-M`` to ``-1`` for neighbouring slots.
        doc: document of each slot, ``-1`` where nothing is remembered yet.
        segment: segment ids, or None where there is one segment.
        contiguous: static promise that ``position[b, m] == m - M``.
        projected: each layer holds keys and values side by side in place of its inputs, ``D`` being
            ``Backbone.projected_width``. They follow from the inputs, so that nothing is projected again while the
            weights stand still; training needs the inputs, to learn the projections by.
    """

    layers: tuple[Float[Tensor, "B M D"], ...]
    position: Int[Tensor, "B M"]
    doc: Int[Tensor, "B M"]
    segment: Int[Tensor, "B M"] | None = None
    contiguous: bool = True
    projected: bool = False

    @property
    def length(self) -> int:
        return self.position.shape[1]

    def drop(self, rows: Bool[Tensor, " B"]) -> MemoryState:
        """Forget what the marked rows remember: their slots become nobody's keys, their states zero."""
        return replace(
            self,
            layers=tuple(layer.masked_fill(rows[:, None, None], 0.0) for layer in self.layers),
            doc=self.doc.masked_fill(rows[:, None], -1),
        )

    def before(self, content: Slots) -> Slots:
        """The keys of a segment: remembered slots, born before everything, then the content slots."""
        if self.length == 0:
            return content
        far = torch.iinfo(torch.int64).max

        def join(past: Tensor, now: Tensor) -> Tensor:
            return torch.cat([past.to(now.dtype), now], dim=1)

        segment = None
        if content.segment is not None:
            past = torch.zeros_like(self.position) if self.segment is None else self.segment
            segment = join(past, content.segment)
        return Slots(
            ids=join(torch.full_like(self.position, QUERY_ID), content.ids),
            position=join(self.position, content.position),
            birth=join(torch.full_like(self.position, MEMORY_BIRTH), content.birth),
            time=join(torch.full_like(self.position, MEMORY_BIRTH), content.time),
            doc=join(self.doc, content.doc),
            direction=content.direction,
            death=None if content.death is None else join(torch.full_like(self.position, far), content.death),
            segment=segment,
            low=content.low - self.length,
            high=content.high,
            contiguous=self.contiguous and content.contiguous and content.low == 0,
        )
