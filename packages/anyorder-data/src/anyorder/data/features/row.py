"""One sequence for fine-tuning: ids, segments and padding of a fixed length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from anyorder.core import DataError, TokenBatch

SEGMENT_A, SEGMENT_B, SEGMENT_CLS, SEGMENT_RIGHT_PAD, SEGMENT_LEFT_PAD = range(5)
PAD_ID = 0
"""What the official inputs are filled up with (``<unk>``, not ``<pad>``). Nobody sees it, so any id would do."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A sequence of fixed length.

    Attributes:
        ids: token ids.
        segment: segment ids, of which only equality matters.
        padding: true where nothing stands.
    """

    ids: tuple[int, ...]
    segment: tuple[int, ...]
    padding: tuple[bool, ...]

    @classmethod
    def of(cls, parts: Sequence[tuple[int, Sequence[int]]], *, length: int, pad: Literal["left", "right"]) -> Row:
        """Put parts, each a segment and its ids, one after another and pad them to ``length``.

        Raises:
            DataError: the parts are longer than ``length``.
        """
        ids = [number for _, part in parts for number in part]
        segment = [name for name, part in parts for _ in part]
        spare = length - len(ids)
        if spare < 0:
            raise DataError(f"a row of {len(ids)} tokens does not fit into {length}; use a greater length")
        fill, name = [PAD_ID] * spare, SEGMENT_LEFT_PAD if pad == "left" else SEGMENT_RIGHT_PAD
        names, empty, full = [name] * spare, [True] * spare, [False] * len(ids)
        if pad == "left":
            return cls(ids=(*fill, *ids), segment=(*names, *segment), padding=(*empty, *full))
        return cls(ids=(*ids, *fill), segment=(*segment, *names), padding=(*full, *empty))

    def __len__(self) -> int:
        return len(self.ids)


def collate(rows: Sequence[Row]) -> TokenBatch:
    """A batch in which all real tokens of a row see each other and nothing is a target.

    Columns that are padding in every row are left out: positions are relative, so no result changes.

    Raises:
        DataError: no rows, or rows of different lengths.
    """
    if len({len(row) for row in rows}) != 1:
        raise DataError("a batch needs rows of one length" if rows else "a batch needs at least one row")
    padding = torch.tensor([row.padding for row in rows])
    used = (~padding).any(dim=0).nonzero().flatten()
    first, last = (int(used[0]), int(used[-1]) + 1) if len(used) else (0, 1)
    columns = slice(first, last)
    ids = torch.tensor([row.ids[columns] for row in rows])
    return TokenBatch.of(
        ids,
        doc=torch.where(padding[:, columns], -1, 0),
        fixed=torch.ones_like(ids, dtype=torch.bool),
        segment=torch.tensor([row.segment[columns] for row in rows]),
    )
