"""Encoding passages on all cores, in order."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray as Array

from anyorder.core import DataError

from .documents import Passage
from .text import cut, sentences
from .tokenizer import Tokenizer

SentenceBreak = Literal["punctuation", "line"]
_CHUNK = 1 << 18  # characters a worker gets at once
_LONGEST = 8192  # characters encoded in one go; SentencePiece's time and memory grow with it


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """A run of encoded passages.

    Attributes:
        ids: all tokens.
        sentence_lengths: tokens of each sentence.
        passage_sentences: sentences of each passage; 0 where the clean-up left nothing.
        first: whether the passage begins a document.
        characters, unknown: of the cleaned text, and ``<unk>`` tokens.
    """

    ids: Int[Array, " n"]
    sentence_lengths: Int[Array, " s"]
    passage_sentences: Int[Array, " p"]
    first: Bool[Array, " p"]
    characters: int
    unknown: int


@dataclass(frozen=True)
class Encoder:
    """Passages to tokens, with sentence borders.

    Args:
        tokenizer: what encodes.
        eop: end every passage with ``<eop>``.
        sentence_break: where sentences end, beside a passage's end: at punctuation, or at line ends.
    """

    tokenizer: Tokenizer
    eop: bool
    sentence_break: SentenceBreak

    def __call__(self, passages: list[Passage]) -> Encoded:
        texts: list[str] = []
        counts: list[int] = []
        for passage in passages:
            found = self._sentences(passage.text)
            texts += found
            counts.append(len(found))
        rows = self.tokenizer.encode_clean(texts)
        if self.eop:
            last = -1
            for count in counts:
                last += count
                if count:
                    rows[last].append(self.tokenizer.vocab.eop)
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        ids = np.fromiter((number for row in rows for number in row), dtype=np.uint32, count=int(lengths.sum()))
        return Encoded(
            ids=ids,
            sentence_lengths=lengths,
            passage_sentences=np.array(counts, dtype=np.int64),
            first=np.array([passage.first for passage in passages], dtype=np.bool_),
            characters=sum(map(len, texts)),
            unknown=int((ids == self.tokenizer.vocab.unk).sum()),
        )

    def _sentences(self, text: str) -> list[str]:
        tokenizer = self.tokenizer
        units = text.splitlines() if self.sentence_break == "line" else [text]
        found: list[str] = []
        for unit in units:
            cleaned = tokenizer.clean_case(unit)
            split = sentences(cleaned) if self.sentence_break == "punctuation" else [cleaned]
            for sentence in split:
                found += cut(sentence.lower() if tokenizer.lower else sentence, _LONGEST)
        return [part for part in found if part and not part.isspace()]


def chunks(passages: Iterable[Passage]) -> Iterator[list[Passage]]:
    """Group passages into pieces of work; the grouping depends on the text alone."""
    held: list[Passage] = []
    size = 0
    for passage in passages:
        held.append(passage)
        size += len(passage.text)
        if size >= _CHUNK:
            yield held
            held, size = [], 0
    if held:
        yield held


class Pool:
    """An encoder on several processes, giving results in the order of the work."""

    def __init__(self, encoder: Encoder, *, workers: int) -> None:
        self._encoder, self._workers = encoder, workers
        self._executor: ProcessPoolExecutor | None = None

    @contextmanager
    def running(self) -> Iterator[Pool]:
        if self._workers == 1:
            yield self
            return
        # Forked children run no torch code, only the encoder; a fork needs no importable __main__ and starts at once.
        method = "fork" if sys.platform == "linux" else "spawn"
        self._executor = ProcessPoolExecutor(
            self._workers,
            mp_context=multiprocessing.get_context(method),
            initializer=_start,
            initargs=(
                self._encoder.tokenizer.model,
                self._encoder.tokenizer.settings,
                self._encoder.eop,
                self._encoder.sentence_break,
            ),
        )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # on forking a process that has threads
                self._executor.submit(int).result()  # fork now, before a progress bar starts its thread
            yield self
        finally:
            self._executor.shutdown(wait=True, cancel_futures=True)
            self._executor = None

    def encode(self, work: Iterable[list[Passage]]) -> Iterator[Encoded]:
        if self._executor is None:
            yield from map(self._encoder, work)
            return
        waiting: deque[Future[Encoded]] = deque()
        try:
            for passages in work:
                waiting.append(self._executor.submit(_encode, passages))
                if len(waiting) > 3 * self._workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool as error:
            raise DataError("a worker process died, perhaps for want of memory; use fewer workers") from error


def available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_worker: Encoder | None = None


def _start(model: bytes, settings: dict[str, str | bool], eop: bool, sentence_break: SentenceBreak) -> None:
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops everything
    _worker = Encoder(Tokenizer(model, **settings), eop, sentence_break)  # type: ignore[arg-type]


def _encode(passages: list[Passage]) -> Encoded:
    assert _worker is not None
    return _worker(passages)
