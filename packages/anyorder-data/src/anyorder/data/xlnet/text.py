"""Text as XLNet's pretraining reads it: a stream of tokens whose sentence mark flips at every line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Int, Shaped
from numpy import ndarray as Array

from ..lines import read_lines
from ..tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class MarkedTokens:
    """Tokens, and a mark of each that changes where a sentence ends."""

    ids: Int[Array, " n"]
    mark: Bool[Array, " n"]

    @classmethod
    def read(cls, path: Path, tokenizer: Tokenizer, *, eod: bool = True) -> MarkedTokens:
        """A file of one sentence a line and a blank line between documents (``data_utils.py`` ``_create_data``).

        Args:
            eod: a blank line is an ``<eod>`` in the sentence before it; otherwise it is nothing.
        """
        ids: list[int] = []
        marks: list[bool] = []
        mark = True
        for line in read_lines(path, whole=True):
            text = line.text.strip()
            if text:
                found = tokenizer.encode(text)
            elif eod:
                found, mark = [tokenizer.vocab.eod], not mark
            else:
                continue
            ids += found
            marks += [mark] * len(found)
            mark = not mark
        return cls(ids=np.array(ids, dtype=np.int64), mark=np.array(marks, dtype=np.bool_))

    @classmethod
    def join(cls, shards: Iterable[MarkedTokens]) -> MarkedTokens:
        """Shards one after another, each turned where needed so that the mark changes at the seam."""
        ids: list[Int[Array, " n"]] = []
        marks: list[Bool[Array, " n"]] = []
        for shard in shards:
            if not len(shard.ids):
                continue
            turned = bool(marks) and bool(marks[-1][-1] == shard.mark[0])
            ids.append(shard.ids)
            marks.append(shard.mark ^ turned)
        if not ids:
            return cls(ids=np.zeros(0, dtype=np.int64), mark=np.zeros(0, dtype=np.bool_))
        return cls(ids=np.concatenate(ids), mark=np.concatenate(marks))

    @classmethod
    def read_all(
        cls, paths: Sequence[Path], tokenizer: Tokenizer, *, order: Sequence[int], eod: bool = True
    ) -> MarkedTokens:
        """Files in an order."""
        return cls.join(cls.read(paths[number], tokenizer, eod=eod) for number in order)


def batchify(values: Shaped[Array, " n"], rows: int) -> Shaped[Array, "R S"]:
    """Equal contiguous rows; what does not fill one is dropped (``data_utils.py`` ``batchify``)."""
    size = len(values) // rows
    return values[: size * rows].reshape(rows, size)


def both_ways(rows: Shaped[Array, "R S"], *, cores: int) -> Shaped[Array, "R2 S"]:
    """For each core its rows, then the same rows reversed (``bi_data``)."""
    own = rows.reshape(cores, -1, rows.shape[1])
    return np.concatenate([own, own[:, :, ::-1]], axis=1).reshape(-1, rows.shape[1])


@dataclass(frozen=True)
class MarkedText:
    """One row, as text that pairs are cut from. ``inner``: all borders but the ends, ascending."""

    length: int
    inner: Int[Array, " n"]

    @classmethod
    def of(cls, mark: Bool[Array, " n"]) -> MarkedText:
        return cls(len(mark), np.flatnonzero(mark[1:] != mark[:-1]) + 1)

    def border_after(self, place: int) -> int:
        """The first border at or after a place."""
        at = int(np.searchsorted(self.inner, place))
        return 0 if place == 0 else int(self.inner[at]) if at < len(self.inner) else self.length

    def border_before(self, place: int) -> int:
        """The last border at or before a place."""
        at = int(np.searchsorted(self.inner, place, side="right"))
        return self.length if place == self.length else int(self.inner[at - 1]) if at else 0

    def borders(self, begin: int, end: int) -> Int[Array, " n"]:
        """All borders strictly between two places."""
        low, high = np.searchsorted(self.inner, [begin + 1, end])
        return self.inner[low:high]
