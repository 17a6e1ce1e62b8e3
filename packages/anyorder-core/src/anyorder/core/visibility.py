"""The one visibility rule: reader r may attend to slot k iff birth[k] <= time[r] <= death[k] and doc[k] == doc[r]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from .slots import Slots
from .struct import TensorStruct

MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
_NOBODYS_DOC = -2


@dataclass(frozen=True, kw_only=True)
class Visibility(TensorStruct):
    """What each reader may attend to, as vectors; true always means "may attend".

    Attributes:
        time, doc: of the readers.
        birth, death, key_doc: of the keys, ``-2`` being the document of padding, which no reader has.
        position, key_position: places in reading order, which the span limits.
        back, ahead: limits on ``position - key_position`` on top of the rule, or None.
    """

    time: Int[Tensor, "B Q"]
    doc: Int[Tensor, "B Q"]
    birth: Int[Tensor, "B K"]
    key_doc: Int[Tensor, "B K"]
    position: Int[Tensor, "B Q"]
    key_position: Int[Tensor, "B K"]
    death: Int[Tensor, "B K"] | None = None
    back: int | None = None
    ahead: int | None = None

    @classmethod
    def of(cls, readers: Slots, keys: Slots) -> Visibility:
        key_doc = torch.where(keys.doc < 0, torch.full_like(keys.doc, _NOBODYS_DOC), keys.doc)
        return cls(
            time=readers.time,
            doc=readers.doc,
            birth=keys.birth,
            key_doc=key_doc,
            position=readers.position,
            key_position=keys.position,
            death=keys.death,
            back=readers.back,
            ahead=readers.ahead,
        )

    def dense(self) -> Bool[Tensor, "B Q K"]:
        """The whole mask, for the naive backend, tests and pictures."""
        time, doc = self.time[:, :, None], self.doc[:, :, None]  # [B, Q, 1]
        seen = (self.birth[:, None, :] <= time) & (self.key_doc[:, None, :] == doc)
        if self.death is not None:
            seen = seen & (time <= self.death[:, None, :])
        if self.back is not None or self.ahead is not None:
            distance = self.position[:, :, None] - self.key_position[:, None, :]
            seen = seen & self._within_span(distance)
        return seen

    def mask_mod(self) -> MaskMod:
        """The same rule, entry by entry, as FlexAttention wants it."""
        time, doc, birth, key_doc, death = self.time, self.doc, self.birth, self.key_doc, self.death

        def seen(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
            visible = (birth[b, k] <= time[b, q]) & (key_doc[b, k] == doc[b, q])
            if death is not None:
                visible = visible & (time[b, q] <= death[b, k])
            if self.back is not None or self.ahead is not None:
                visible = visible & self._within_span(self.position[b, q] - self.key_position[b, k])
            return visible

        return seen

    def block(self, readers: slice, keys: slice) -> Visibility:
        """The rule between some neighbouring readers and keys."""
        return replace(
            self,
            time=self.time[:, readers],
            doc=self.doc[:, readers],
            position=self.position[:, readers],
            birth=self.birth[:, keys],
            key_doc=self.key_doc[:, keys],
            key_position=self.key_position[:, keys],
            death=None if self.death is None else self.death[:, keys],
        )

    def key_range(self, readers: slice) -> slice:
        """The shortest run of keys that holds all that any of these readers sees; never empty.

        Looks at values, so on an accelerator it waits for them.
        """
        latest = self.time[:, readers].amax(dim=1, keepdim=True)
        born = (self.birth <= latest) & (self.key_doc >= 0)
        if self.death is not None:
            born &= self.death >= self.time[:, readers].amin(dim=1, keepdim=True)
        used = born.any(dim=0).nonzero()
        return slice(int(used[0]), int(used[-1]) + 1) if len(used) else slice(0, 1)

    def _within_span(self, distance: Tensor) -> Tensor:
        inside = torch.ones_like(distance, dtype=torch.bool)
        if self.back is not None:
            inside = inside & (distance <= self.back)
        if self.ahead is not None:
            inside = inside & (distance >= -self.ahead)
        return inside
