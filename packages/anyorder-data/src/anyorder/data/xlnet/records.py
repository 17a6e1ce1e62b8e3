"""XLNet's pretraining records, made from marked text as the official ``create_tfrecords`` makes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray as Array

from anyorder.core import DataError, Vocab

from ..pairs import FUNCTIONAL, segments, split_pair
from .draws import RecordDraws
from .spans import OfficialSpans
from .text import MarkedText, MarkedTokens, batchify, both_ways


@dataclass(frozen=True, kw_only=True)
class Record:
    """One example as the official records have it.

    Attributes:
        input: ``[reuse | A | SEP | B | SEP | CLS]``.
        target: what follows each token in its text, B's first token after A's SEP; CLS at the last two.
        seg_id: 0 for the reuse part, A and its SEP, 1 for B and its SEP, 2 for CLS.
        is_masked: tokens to predict; SEP and CLS among them are passed over by the parser.
        label: 1 where B follows A.
    """

    input: Int[Array, " L"]
    target: Int[Array, " L"]
    seg_id: Int[Array, " L"]
    is_masked: Bool[Array, " L"]
    label: int


@dataclass(frozen=True, kw_only=True)
class RecordLayout:
    """How records are cut from text; the names of the official flags are in brackets.

    Args:
        rows: rows of a batch, of all cores (``bsz_per_host``).
        length: tokens of a record (``seq_len``).
        reuse: tokens that memory keeps, and how far apart records of a row start (``reuse_len``).
        bidirectional: the second half of each core's rows are the first half reversed (``bi_data``).
        cores: how many parts a batch is divided into (``num_core_per_host``).
        targets: targets of a record, the odd one in its first part (``num_predict``); None for what spans give.
        spans: the choice of targets.

    Raises:
        DataError: sizes that do not fit together.
    """

    rows: int
    length: int
    reuse: int
    bidirectional: bool = False
    cores: int = 1
    targets: int | None = None
    spans: OfficialSpans = field(default_factory=OfficialSpans)

    def __post_init__(self) -> None:
        parts = self.cores * (2 if self.bidirectional else 1)
        if self.rows < 1 or self.cores < 1 or self.rows % parts:
            raise DataError(f"{self.rows} rows cannot be shared by {self.cores} cores; use a multiple of {parts}")
        if not 1 <= self.reuse <= self.length - FUNCTIONAL - 2:
            raise DataError(
                f"reuse_len {self.reuse} does not fit seq_len {self.length}; allowed: 1 to "
                f"{self.length - FUNCTIONAL - 2}"
            )

    @property
    def streams(self) -> int:
        """Rows of text: half of the rows where each is read both ways."""
        return self.rows // 2 if self.bidirectional else self.rows

    def backward(self, row: int) -> bool:
        """Whether a row reads from right to left."""
        half = self.rows // self.cores // 2
        return self.bidirectional and row // half % 2 == 1

    def goals(self) -> tuple[int | None, int | None]:
        """Targets of the first and of the second part of a record."""
        if self.targets is None:
            return None, None
        return self.targets - self.targets // 2, self.targets // 2

    def records(
        self, text: MarkedTokens, *, vocab: Vocab, starts_word: Bool[Array, " V"], draws: RecordDraws
    ) -> Iterator[Record]:
        """The records of a text, row after row and step after step.

        The last step is the one before the first that lacks text for any of its rows.

        Args:
            starts_word: whether each piece begins a word (``Tokenizer.starts_word``).
        """
        ids, marks = (batchify(values, self.streams) for values in (text.ids, text.mark))
        if self.bidirectional:
            ids, marks = (both_ways(values, cores=self.cores) for values in (ids, marks))
        texts = [MarkedText.of(mark) for mark in marks]
        goals = self.goals()
        for begin in range(0, ids.shape[1] - self.length + 1, self.reuse):
            step = []
            for row, tokens in enumerate(ids):
                record = self._record(tokens, texts[row], begin, vocab=vocab, draws=draws)
                if record is None:
                    return
                chosen = [
                    self.spans.choose(starts_word[part], goal=goal, draws=draws, backward=self.backward(row))
                    for part, goal in zip(np.split(record.input, [self.reuse]), goals, strict=True)
                ]
                step.append(replace(record, is_masked=np.concatenate(chosen)))
            yield from step

    def _record(
        self, tokens: Int[Array, " n"], text: MarkedText, begin: int, *, vocab: Vocab, draws: RecordDraws
    ) -> Record | None:
        """A record without targets; None where A or B would end the row, since their last tokens have no next one."""
        total, start = self.length - self.reuse - FUNCTIONAL, begin + self.reuse
        if start + total >= text.length:
            return None
        pair = split_pair(text, begin=start, total=total, draws=draws)
        (a, a_end), (b, b_end) = pair.a, pair.b
        if max(a_end, b_end) >= text.length:
            return None
        sep, cls = vocab.sep, vocab.cls
        return Record(
            input=np.concatenate([tokens[begin:a_end], [sep], tokens[b:b_end], [sep, cls]]),
            target=np.concatenate(
                [tokens[begin + 1 : start + 1], tokens[a + 1 : a_end + 1], tokens[b : b_end + 1], [cls, cls]]
            ),
            seg_id=segments(reuse=self.reuse, a=a_end - a, b=b_end - b),
            is_masked=np.zeros(self.length, dtype=np.bool_),
            label=int(pair.follows),
        )
