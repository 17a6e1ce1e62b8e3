"""The special ids of a vocabulary, as the parts need them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Vocab:
    """Sizes and special ids. The defaults are XLNet's (official ``data_utils.py`` ``special_symbols``)."""

    size: int
    unk: int = 0
    bos: int = 1
    eos: int = 2
    cls: int = 3
    sep: int = 4
    pad: int = 5
    mask: int = 6
    eod: int = 7
    eop: int = 8

    @property
    def control(self) -> tuple[int, ...]:
        """Ids that stand for no text and are never put in a token's place at random."""
        return (self.unk, self.bos, self.eos, self.cls, self.sep, self.pad, self.mask)
