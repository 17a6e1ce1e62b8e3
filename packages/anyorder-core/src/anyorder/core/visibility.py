"""The one visibility rule: reader r may attend to slot k iff birth[k] <= time[r] <= death[k] and doc[k] == doc[r]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
    """

    time: Int[Tensor, "B Q"]
    doc: Int[Tensor, "B Q"]
    birth: Int[Tensor, "B K"]
    key_doc: Int[Tensor, "B K"]
    death: Int[Tensor, "B K"] | None = None

    @classmethod
    def of(cls, readers: Slots, keys: Slots) -> Visibility:
        key_doc = torch.where(keys.doc < 0, torch.full_like(keys.doc, _NOBODYS_DOC), keys.doc)
        return cls(time=readers.time, doc=readers.doc, birth=keys.birth, key_doc=key_doc, death=keys.death)

    def dense(self) -> Bool[Tensor, "B Q K"]:
        """The whole mask, for the naive backend, tests and pictures."""
        time, doc = self.time[:, :, None], self.doc[:, :, None]  # [B, Q, 1]
        seen = (self.birth[:, None, :] <= time) & (self.key_doc[:, None, :] == doc)
        return seen if self.death is None else seen & (time <= self.death[:, None, :])

    def mask_mod(self) -> MaskMod:
        """The same rule, entry by entry, as FlexAttention wants it."""
        time, doc, birth, key_doc, death = self.time, self.doc, self.birth, self.key_doc, self.death

        def seen(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
            visible = (birth[b, k] <= time[b, q]) & (key_doc[b, k] == doc[b, q])
            return visible if death is None else visible & (time[b, q] <= death[b, k])

        return seen

    def rows(self, start: int, stop: int) -> Visibility:
        """The readers ``start`` to ``stop``."""
        return Visibility(
            time=self.time[:, start:stop],
            doc=self.doc[:, start:stop],
            birth=self.birth,
            key_doc=self.key_doc,
            death=self.death,
        )
