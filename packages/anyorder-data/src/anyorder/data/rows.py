"""Contiguous rows for recurrent memory, each batch a function of (seed, step, rows)."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from jaxtyping import Int
from numpy import ndarray as Array
from torch import Tensor

from anyorder.core import DataError, Draws, TokenBatch, did_you_mean

from .corpus import Split
from .pairs import FUNCTIONAL, PAIR_LABELS, segments, split_pair, swap_pair
from .stream import Concatenation, Stream

Layout = Literal["plain", "pairs"]
Negatives = Literal["random", "swapped"]
_LAYOUTS = ("plain", "pairs")


class Rows:
    """Documents, one after another in an order drawn for each epoch, cut into equal streams read side by side.

    At step ``t`` of an epoch a row reads ``[t * stride, t * stride + length)`` of its stream, so that memory of the
    first ``stride`` tokens of every segment is memory of all that came before. ``batch(step)`` depends on the arguments
    and the step alone: to resume is to remember one integer. With ``stride < length`` the tokens after the first
    ``stride`` are read again in the next segment, and are marked as block 1.

    In layout ``"pairs"`` (XLNet's ``data_utils.py``) the first ``stride`` tokens are followed by ``A SEP B SEP CLS``,
    A being the text that comes next, and the label ``next_sentence`` is 1 where B follows A. With ``"swapped"``
    negatives (ALBERT's) B always does, but in half of the rows the two change places: ``sentence_order`` is then 1.
    What stands before the pair tells which of the two goes on from it; a small ``stride`` tells less.

    Args:
        split: the documents.
        rows: number of rows, of all ranks together.
        length: tokens of a segment.
        stride: new tokens a step (XLNet's ``reuse_len``); ``length`` by default, half of it for pairs.
        seed: of the document orders and of the pairs.
        bidirectional: the second half of the rows reads the streams of the first half from right to left, and so
            does memory (``bi_data``).
        isolate_documents: number the documents, so that none sees another, memory included; otherwise a row is one
            document, as in XLNet.
        isolate_reuse: mark the tokens after the first ``stride`` as block 1, which those never see. Without memory
            nothing needs it.
        negatives: what half of the pairs have that are not A and what follows it: text from anywhere (``"random"``), or
            what follows A and then A (``"swapped"``).
        shuffle_documents: draw a new document order each epoch.
        rank, world: this process reads rows ``rank * rows / world`` and following, ``rows / world`` of them.

    Raises:
        DataError: arguments that do not fit together, or too little text for one step.
    """

    def __init__(
        self,
        split: Split,
        *,
        rows: int,
        length: int,
        stride: int | None = None,
        seed: int = 0,
        bidirectional: bool = False,
        isolate_documents: bool = False,
        layout: Layout = "plain",
        isolate_reuse: bool = True,
        negatives: Negatives = "random",
        shuffle_documents: bool = True,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        for name, value, allowed in (("layout", layout, _LAYOUTS), ("negatives", negatives, tuple(PAIR_LABELS))):
            if value not in allowed:
                known = ", ".join(map(repr, allowed))
                raise DataError(f"{name} {value!r} is unknown; allowed: {known}{did_you_mean(value, allowed)}")
        if stride is None:
            stride = length // 2 if layout == "pairs" else length
        self.split, self.rows, self.length, self.stride, self.seed = split, rows, length, stride, seed
        self.bidirectional, self.isolate_documents, self.layout = bidirectional, isolate_documents, layout
        self.isolate_reuse, self.negatives = isolate_reuse, negatives
        self.shuffle_documents, self.rank, self.world = shuffle_documents, rank, world
        self._check_arguments()
        self.streams = rows // 2 if bidirectional else rows
        self.stream_length = split.token_count // self.streams
        self.steps_per_epoch = self._count_steps()
        self.row_numbers: Int[Tensor, " B"] = torch.arange(rank * rows // world, (rank + 1) * rows // world)
        numbers = self.row_numbers.numpy()
        self._stream = numbers % self.streams
        self._backward = numbers >= self.streams
        self._direction = torch.from_numpy(np.where(self._backward, -1, 1)) if bidirectional else None
        self._starts_word = split.tokenizer.starts_word
        self._epoch: tuple[int, Concatenation] | None = None

    def _check_arguments(self) -> None:
        for name in ("rows", "length", "stride", "world"):
            if getattr(self, name) < 1:
                raise DataError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.stride > self.length:
            raise DataError(
                f"stride {self.stride} is larger than length {self.length}: tokens would be skipped; "
                f"set stride (reuse_len) to at most {self.length}"
            )
        if self.bidirectional and self.rows % 2:
            raise DataError(f"bidirectional rows come in pairs: rows is {self.rows}, it must be even")
        if self.rows % self.world:
            raise DataError(f"rows is {self.rows}; it must be a multiple of the {self.world} ranks")
        if not 0 <= self.rank < self.world:
            raise DataError(f"rank {self.rank} is not among {self.world} ranks")
        if self.layout == "pairs":
            if self.length - self.stride - FUNCTIONAL < 2:
                raise DataError(
                    f"layout 'pairs' needs stride (reuse_len) of at most length - {FUNCTIONAL + 2} = "
                    f"{self.length - FUNCTIONAL - 2}, so that A and B have a token each; it is {self.stride}"
                )
            if self.isolate_documents:
                raise DataError(
                    "layout 'pairs' joins text of two documents, so isolate_documents cannot hold; choose one of them"
                )

    def _count_steps(self) -> int:
        # A pair needs the text of a whole segment without SEP, SEP and CLS, and one token more (data_utils.py).
        needed = self.length if self.layout == "plain" else self.length - FUNCTIONAL + 1
        if self.stream_length < needed:
            most = self.split.token_count // needed
            fewer = f"at most {most:,} streams, " if most else ""
            raise DataError(
                f"the {self.split.name!r} split has {self.split.token_count:,} tokens, {self.stream_length:,} for each "
                f"of {self.streams} streams, and a segment needs {needed:,}: use {fewer}a shorter length, or more text"
            )
        return (self.stream_length - needed) // self.stride + 1

    @property
    def tokens_per_step(self) -> int:
        """Tokens processed a step by all ranks; with a stride some are read for the second time."""
        return self.rows * self.length

    @property
    def new_tokens_per_step(self) -> int:
        """Tokens of all ranks that no earlier step of the epoch has read in that row."""
        return self.rows * self.stride

    @property
    def last_block(self) -> int:
        """How many tokens at a segment's end may see all of it."""
        return self.length - self.stride if self.isolate_reuse and self.stride < self.length else self.length

    def epoch(self, step: int) -> int:
        return step // self.steps_per_epoch

    def batch(self, step: int) -> TokenBatch:
        """The segments of one step, for this rank's rows."""
        if step < 0:
            raise DataError(f"step {step} is negative")
        epoch, within = divmod(step, self.steps_per_epoch)
        documents = self._documents(epoch)
        begin = within * self.stride
        labels: dict[str, Tensor] = {}
        if self.layout == "plain":
            ids, doc = self._plain(documents, begin)
            fixed = np.zeros(ids.shape, dtype=np.bool_)
            segment = None
        else:
            ids, segments_, follows = self._pairs(documents, begin, step)
            doc, segment = np.zeros_like(ids), torch.from_numpy(segments_)
            fixed = (ids == self.split.vocab.sep) | (ids == self.split.vocab.cls)
            labels[PAIR_LABELS[self.negatives]] = torch.from_numpy(
                follows if self.negatives == "random" else 1 - follows
            )
        return TokenBatch(
            ids=torch.from_numpy(ids),
            doc=torch.from_numpy(doc if self.isolate_documents else np.zeros_like(ids)),
            fixed=torch.from_numpy(fixed),
            fresh=torch.full((len(ids),), within == 0),
            direction=self._direction,
            segment=segment,
            word=torch.from_numpy(self._words(ids)),
            block=self._block(len(ids)),
            labels=labels,
        )

    def _documents(self, epoch: int) -> Concatenation:
        if self._epoch is None or self._epoch[0] != epoch:
            documents = Concatenation.of(self.split, seed=self.seed, epoch=epoch, shuffle=self.shuffle_documents)
            self._epoch = (epoch, documents)
        return self._epoch[1]

    def _plain(self, documents: Concatenation, begin: int) -> tuple[Int[Array, "B L"], Int[Array, "B L"]]:
        offset = np.where(self._backward, self.stream_length - begin - self.length, begin)
        begins = self._stream * self.stream_length + offset
        ids, doc = documents.gather(begins, np.full_like(begins, self.length))
        return self._turn(ids.reshape(-1, self.length)), self._turn(doc.reshape(-1, self.length))

    def _turn(self, values: Int[Array, "B L"]) -> Int[Array, "B L"]:
        """Turn the backward rows round: from text order to the order they are read in, and back."""
        if self.bidirectional:
            values[self._backward] = values[self._backward, ::-1]
        return values

    def _words(self, ids: Int[Array, "B L"]) -> Int[Array, "B L"]:
        """Word numbers; what begins a word is seen in text order, whichever way a row reads."""
        if ids.max(initial=0) >= len(self._starts_word):
            raise DataError(
                f"{self.split.name}: token id {ids.max()} is outside the vocabulary of {len(self._starts_word)}; was "
                "the corpus prepared with another tokenizer?"
            )
        return self._turn(np.cumsum(self._starts_word[self._turn(ids.copy())], axis=1))

    def _block(self, rows: int) -> Int[Tensor, "B L"] | None:
        if self.last_block == self.length:
            return None
        return (torch.arange(self.length) >= self.stride).long().expand(rows, -1).contiguous()

    def _pairs(
        self, documents: Concatenation, begin: int, step: int
    ) -> tuple[Int[Array, "B L"], Int[Array, "B L"], Int[Array, " B"]]:
        vocab, total = self.split.vocab, self.length - self.stride - FUNCTIONAL
        uniform = Draws(self.seed, step, rows=self.row_numbers, purpose="pairs").rand(4).double().numpy()
        cut = split_pair if self.negatives == "random" else swap_pair
        spans, lengths, follows = [], [], []
        for row, (stream, backward) in enumerate(zip(self._stream, self._backward, strict=True)):
            text = Stream(documents, int(stream) * self.stream_length, self.stream_length, bool(backward))
            pair = cut(text, begin=begin + self.stride, total=total, draws=_KeyedDraws(uniform[row]))
            spans += [text.locate(*part) for part in ((begin, begin + self.stride), pair.a, pair.b)]
            lengths.append((pair.a[1] - pair.a[0], pair.b[1] - pair.b[0]))
            follows.append(int(pair.follows))
        low, high = np.array(spans).T
        texts, _ = documents.gather(low, high - low)
        parts = np.split(texts, np.cumsum(high - low)[:-1])
        ids = np.full((len(follows), self.length), vocab.sep)
        ids[:, -1] = vocab.cls
        for row, (a, b) in enumerate(lengths):
            turn = -1 if self._backward[row] else 1
            reuse, first, second = (part[::turn] for part in parts[3 * row : 3 * row + 3])
            ids[row, : self.stride + a] = np.concatenate([reuse, first])
            ids[row, self.stride + a + 1 : -2] = second
            assert a + b == total, (a, b, total)
        segment = np.stack([segments(reuse=self.stride, a=a, b=b) for a, b in lengths])
        return ids, segment, np.array(follows)


class _KeyedDraws:
    """The choices of one pair from four uniform numbers of 24 bits."""

    def __init__(self, uniform: Array) -> None:
        self._negative, self._choice, self._high, self._low = (float(number) for number in uniform)

    def negative(self) -> bool:
        return self._negative < 0.5

    def choice(self, count: int) -> int:
        return int(self._choice * count)

    def place(self, count: int) -> int:
        fine = self._high + self._low * 2.0**-24  # 48 bits: streams may be longer than 24 bits count
        return int(fine * count)
