"""A virtual concatenation of documents, read anywhere without copying the corpus."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int
from numpy import ndarray as Array
from numpy.typing import NDArray

from anyorder.core import Draws

from .corpus import Split


@dataclass(frozen=True)
class Concatenation:
    """Documents of a split one after another.

    Attributes:
        split: whose documents.
        offsets: ``[D + 1]``, where each document begins in the concatenation, and its end.
        starts: ``[D]``, where each begins in ``split.tokens``.
    """

    split: Split
    offsets: Int[Array, " D1"]
    starts: Int[Array, " D"]

    @classmethod
    def of(cls, split: Split, *, seed: int, epoch: int, shuffle: bool) -> Concatenation:
        """The documents in the order drawn for ``(seed, epoch)``, or as they come."""
        starts, lengths = split.starts, split.lengths
        if shuffle:
            order = Draws(seed, epoch, rows=1, purpose="documents").permutation(split.documents)[0].numpy()
            starts, lengths = starts[order], lengths[order]
        return cls(split, np.concatenate([[0], np.cumsum(lengths)]), starts)

    @property
    def length(self) -> int:
        return int(self.offsets[-1])

    def gather(self, begins: Int[Array, " R"], lengths: Int[Array, " R"]) -> tuple[Int[Array, " n"], Int[Array, " n"]]:
        """Tokens of the windows ``[begin, begin + length)``, none of them empty, one after another, and the number of
        the document each stands in.

        A binary search finds the first and last document of each window; the rest is one gather, so the time grows
        with the windows and not with the corpus.
        """
        ends = begins + lengths
        first = np.searchsorted(self.offsets, begins, side="right") - 1  # [R]
        last = np.searchsorted(self.offsets, ends, side="left") - 1
        document = ranges(first, last - first + 1)  # all overlaps, window by window
        counts = last - first + 1
        low = np.maximum(self.offsets[document], np.repeat(begins, counts))
        high = np.minimum(self.offsets[document + 1], np.repeat(ends, counts))
        shift = self.starts[document] - self.offsets[document]
        spans = high - low
        ids = self.split.tokens[ranges(low + shift, spans)].astype(np.int64)
        return ids, np.repeat(document, spans)

    def border_after(self, place: int) -> int:
        """The first sentence end at or after ``place`` (in ``1 .. length``)."""
        document = max(int(np.searchsorted(self.offsets, place, side="left")) - 1, 0)
        shift = int(self.starts[document] - self.offsets[document])
        ends = self.split.sentence_ends
        return int(ends[np.searchsorted(ends, max(place, 1) + shift, side="left")]) - shift

    def border_before(self, place: int) -> int:
        """The last sentence end, or document start, at or before ``place``."""
        document = int(np.searchsorted(self.offsets, place, side="right")) - 1
        if document >= len(self.starts):
            return self.length
        begin, shift = int(self.offsets[document]), int(self.starts[document] - self.offsets[document])
        ends = self.split.sentence_ends
        at = int(np.searchsorted(ends, place + shift, side="right")) - 1
        return max(begin, int(ends[at]) - shift) if at >= 0 else begin

    def borders(self, begin: int, end: int) -> NDArray[np.int64]:
        """All sentence ends strictly between two places, ascending."""
        found: list[NDArray[np.int64]] = []
        first = int(np.searchsorted(self.offsets, begin, side="right")) - 1
        last = int(np.searchsorted(self.offsets, end, side="left")) - 1
        ends = self.split.sentence_ends
        for document in range(first, last + 1):
            shift = int(self.starts[document] - self.offsets[document])
            low = max(begin, int(self.offsets[document]))
            high = min(end - 1, int(self.offsets[document + 1]))
            left, right = np.searchsorted(ends, [low + shift, high + shift], side="right")
            found.append(ends[left:right] - shift)
        return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Stream:
    """A stretch of a concatenation, read left to right or right to left.

    Attributes:
        begin, length: where it lies in ``documents``.
        backward: place 0 is the last token and reading goes left.
    """

    documents: Concatenation
    begin: int
    length: int
    backward: bool = False

    def locate(self, begin: int, end: int) -> tuple[int, int]:
        """Where the places ``begin`` to ``end`` of the stream lie in the concatenation."""
        if self.backward:
            begin, end = self._flip(end), self._flip(begin)
        return self.begin + begin, self.begin + end

    def _flip(self, place: int) -> int:
        return self.length - place

    def border_after(self, place: int) -> int:
        """The first sentence border at or after a place, no further than the stream's end."""
        if self.backward:
            natural = self.documents.border_before(self.begin + self._flip(place)) - self.begin
            return self._flip(max(natural, 0))
        return min(self.documents.border_after(self.begin + place) - self.begin, self.length)

    def border_before(self, place: int) -> int:
        """The last sentence border at or before a place, no earlier than the stream's start."""
        if self.backward:
            natural = self.documents.border_after(self.begin + self._flip(place)) - self.begin
            return self._flip(min(natural, self.length))
        return max(self.documents.border_before(self.begin + place) - self.begin, 0)

    def borders(self, begin: int, end: int) -> NDArray[np.int64]:
        """Sentence borders strictly between two places, ascending."""
        found = self.documents.borders(*self.locate(begin, end))
        if self.backward:
            return (self.begin + self.length) - found[::-1]
        return found - self.begin


def ranges(begins: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """``begin .. begin + length - 1`` for every pair, one after another."""
    ends = np.cumsum(lengths)
    places: NDArray[np.int64] = np.arange(int(ends[-1]))
    places += np.repeat(begins - (ends - lengths), lengths)
    return places
