"""Writing encoded passages as documents, in one pass and bounded memory."""

from __future__ import annotations

import hashlib
from array import array
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from jaxtyping import Int
from numpy import ndarray as Array
from numpy.typing import NDArray

from .encode import Encoded
from .manifest import DOCUMENTS, SENTENCES, TOKENS
from .tokenizer import Tokenizer


class _Hashed:
    """A file that keeps the hash of what is written to it."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("wb", buffering=1 << 20)
        self._digest = hashlib.sha256()
        self._size = 0

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self._digest.update(data)
        self._size += len(data)

    def close(self) -> dict[str, Any]:
        self._file.close()
        return {"bytes": self._size, "sha256": self._digest.hexdigest()}


@dataclass
class CorpusWriter:
    """Documents to ``tokens.bin``, ``documents.bin`` (where each begins, and the end) and ``sentences.bin`` (where
    each sentence ends).

    Every document ends with ``<eod>``, which belongs to its last sentence. Sixteen bytes a document are kept in memory.

    Args:
        folder: where to write.
        tokenizer: for the width of a token, ``<eod>`` and bytes a piece.
        max_document_pieces: documents longer than this are cut into several, at passage borders if it can be, else at
            sentence borders, else anywhere.
        seed: keys the hash by which the validation documents are chosen.
    """

    folder: Path
    tokenizer: Tokenizer
    max_document_pieces: int | None
    seed: int
    characters: int = 0
    unknown: int = 0
    keys: array[int] = field(default_factory=lambda: array("Q"))
    bytes: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("q"))
    sentences: int = 0

    def __post_init__(self) -> None:
        self.dtype = np.dtype("<u2" if self.tokenizer.vocab.size <= 1 << 16 else "<u4")
        self._tokens = _Hashed(self.folder / TOKENS)
        self._sentences = _Hashed(self.folder / SENTENCES)
        self._position = 0
        self._room = None if self.max_document_pieces is None else self.max_document_pieces - 1  # <eod>
        self._begin()

    def _begin(self) -> None:
        self._length = 0  # of the document so far
        self._last_sentence = 0  # its end, held back because <eod> joins it
        self._document_bytes = 0
        self._document_hash = hashlib.blake2b(digest_size=8, key=self.seed.to_bytes(16, "little", signed=True))

    def add(self, encoded: Encoded) -> None:
        ids = encoded.ids.astype(self.dtype)
        token_bytes = self.tokenizer.piece_bytes[ids]
        sentence = np.concatenate([[0], np.cumsum(encoded.passage_sentences)])  # first of each passage, and the end
        token = np.concatenate([[0], np.cumsum(encoded.sentence_lengths)])[sentence]
        begins = [*np.flatnonzero(encoded.first).tolist(), len(encoded.first)]
        if begins[0]:
            begins.insert(0, 0)  # the chunk goes on with the last one's document
        for start, stop in pairwise(begins):
            if encoded.first[start]:
                self._finish()
            while start < stop:
                # All passages that fit are written as one; one that does not fit goes on its own.
                fits = stop
                if self._room is not None:
                    limit = token[start] + self._room - self._length
                    fits = min(stop, int(np.searchsorted(token, limit, side="right")) - 1)
                end = max(fits, start + 1)
                tokens, lengths = slice(token[start], token[end]), slice(sentence[start], sentence[end])
                self._passage(ids[tokens], encoded.sentence_lengths[lengths], token_bytes[tokens])
                start = end
        self.characters += encoded.characters
        self.unknown += encoded.unknown

    def _passage(self, ids: Int[Array, " n"], lengths: Int[Array, " s"], token_bytes: Int[Array, " n"]) -> None:
        if not len(ids):
            return
        room = self._room
        if room is None or self._length + len(ids) <= room:
            self._append(ids, lengths, token_bytes)
            return
        if len(ids) > room and (len(lengths) > 1 or self._length == 0):
            # Longer than any document may be: its sentences one by one, a sentence that is longer still in parts.
            stops = [0, *np.cumsum(lengths).tolist()]
            if len(lengths) == 1:
                stops = [*range(0, len(ids), room), len(ids)]
            for start, stop in pairwise(stops):
                self._passage(ids[start:stop], np.array([stop - start]), token_bytes[start:stop])
            return
        self._finish()
        self._passage(ids, lengths, token_bytes)

    def _append(self, ids: Int[Array, " n"], lengths: Int[Array, " s"], token_bytes: Int[Array, " n"]) -> None:
        data = ids.tobytes()
        self._tokens.write(data)
        self._document_hash.update(data)
        ends = self._position + self._length + np.cumsum(lengths)
        if self._last_sentence:
            self._write_ends(np.array([self._last_sentence]))
        self._write_ends(ends[:-1])
        self._last_sentence = int(ends[-1])
        self._length += len(ids)
        self._document_bytes += int(token_bytes.sum())

    def _write_ends(self, ends: NDArray[np.int64]) -> None:
        self._sentences.write(ends.astype("<i8").tobytes())
        self.sentences += len(ends)

    def _finish(self) -> None:
        """End the current document, if it has any token."""
        if not self._length:
            return
        self._tokens.write(np.array([self.tokenizer.vocab.eod], dtype=self.dtype).tobytes())
        self._position += self._length + 1
        self._write_ends(np.array([self._position]))
        self.ends.append(self._position)
        self.keys.append(int.from_bytes(self._document_hash.digest(), "little"))
        self.bytes.append(self._document_bytes)
        self._begin()

    def close(self) -> dict[str, dict[str, Any]]:
        """Finish the files; gives size and hash of each."""
        self._finish()
        documents = _Hashed(self.folder / DOCUMENTS)
        documents.write(np.concatenate([[0], np.asarray(self.ends, dtype=np.int64)]).astype("<i8").tobytes())
        return {
            TOKENS: self._tokens.close(),
            SENTENCES: self._sentences.close(),
            DOCUMENTS: documents.close(),
        }


def choose_valid(
    keys: NDArray[np.uint64], lengths: NDArray[np.int64], *, fraction: float, count: int | None
) -> NDArray[np.int64]:
    """The documents to hold out: whole ones, identical ones together, in the order of their keyed hash.

    Args:
        keys: hash of each document's tokens.
        lengths: tokens of each document.
        fraction: of all tokens. Documents that would overshoot it by half are passed over; if all would, the shortest
            one is taken.
        count: take this many distinct documents instead.

    Returns:
        Sorted document numbers; none if there are fewer than two distinct documents.
    """
    order = np.argsort(keys, kind="stable")
    begins = np.flatnonzero(np.concatenate([[True], np.diff(keys[order]) != 0]))  # groups of identical documents
    sizes = np.add.reduceat(lengths[order], begins)
    groups = np.split(order, begins[1:])
    if len(groups) < 2 or count == 0 or (count is None and fraction <= 0):
        return np.zeros(0, dtype=np.int64)
    if count is not None:
        chosen = list(range(min(count, len(groups) - 1)))
    else:
        goal, taken, chosen = fraction * int(lengths.sum()), 0, []
        for number, size in enumerate(sizes.tolist()):
            if taken >= goal or len(chosen) == len(groups) - 1:
                break
            if taken + size <= 1.5 * goal:
                chosen.append(number)
                taken += size
        chosen = chosen or [int(sizes.argmin())]
    return np.sort(np.concatenate([groups[number] for number in chosen])).astype(np.int64)
