"""Pairs of segments against the official draws and records, and against a naive twin."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_corpus import DATA, equal, naive_words, stream_of

from anyorder.core import Draws
from anyorder.data import Rows
from anyorder.data.corpus import Split
from anyorder.data.pairs import segments, split_pair, trim
from anyorder.data.rows import _KeyedDraws
from anyorder.data.stream import Concatenation, Stream

SEP, CLS = 4, 3


@dataclass
class Numbers:
    """The text of the recorded draws: sentence numbers that change at every border."""

    sentence: np.ndarray

    @property
    def length(self) -> int:
        return len(self.sentence)

    def _is_border(self, place: int) -> bool:
        return place in (0, self.length) or self.sentence[place - 1] != self.sentence[place]

    def border_after(self, place: int) -> int:
        return next(p for p in range(place, self.length + 1) if self._is_border(p))

    def border_before(self, place: int) -> int:
        return next(p for p in range(place, -1, -1) if self._is_border(p))

    def borders(self, begin: int, end: int) -> np.ndarray:
        return np.array([p for p in range(begin + 1, end) if self._is_border(p)], dtype=np.int64)


@dataclass
class Recorded:
    """Draws as the official code made them: kinds 0 (a number), 1 (a cut point) and 2 (a place)."""

    kinds: list[int]
    values: list[float]
    cuts: np.ndarray

    def _next(self, kind: int) -> float:
        assert self.kinds.pop(0) == kind
        return self.values.pop(0)

    def negative(self) -> bool:
        return self._next(0) < 0.5

    def choice(self, count: int) -> int:
        assert count == len(self.cuts)
        return self.cuts.tolist().index(int(self._next(1)))

    def place(self, count: int) -> int:
        place = int(self._next(2))
        assert 0 <= place < count
        return place


def test_pairs_equal_the_official_draws() -> None:
    golden = np.load(DATA / "data_split_a_b.npz")

    def ragged(name: str, number: int) -> np.ndarray:
        return golden[name][golden[f"{name}_off"][number] : golden[f"{name}_off"][number + 1]]

    compared = 0
    for number, (begin, total, extend, label, _, _) in enumerate(golden["args"].tolist()):
        text = Numbers(ragged("sent_ids", number))
        if begin + total >= text.length:
            assert label == -1
            continue
        drawn = slice(golden["draw_off"][number], golden["draw_off"][number + 1])
        draws = Recorded(
            golden["draw_kind"][drawn].tolist(),
            golden["draw_value"][drawn].tolist(),
            text.borders(begin, begin + total),
        )
        pair = split_pair(text, begin=begin, total=total, draws=draws)
        assert not draws.kinds
        if label == -1:  # refused only because it wants the token after A and after B as well
            assert extend
            assert text.length in (pair.a[1], pair.b[1])
            continue
        assert np.arange(*pair.a).tolist() == ragged("a", number).tolist()
        assert np.arange(*pair.b).tolist() == ragged("b", number).tolist()
        assert pair.follows == bool(label)
        compared += 1
    assert compared > 150


@pytest.mark.parametrize("run", ["uni", "bi"])
def test_pair_records_equal_the_official_ones(run: str) -> None:
    golden = np.load(DATA / f"data_records_{run}.npz")
    rows, length, reuse, total = 4, 64, 32, 29
    streams = rows // 2 if run == "bi" else rows
    size = len(golden["stream_ids"]) // streams
    cut = slice(0, size * streams)
    ids, sentence = (golden[name][cut].reshape(streams, size) for name in ("stream_ids", "stream_sent_ids"))
    for example in range(len(golden["input"])):
        row, begin = example % rows, example // rows * reuse
        turn = -1 if golden["reverse"][example] else 1
        assert (turn == -1) == (row >= streams)
        own, text = ids[row % streams][::turn], Numbers(sentence[row % streams][::turn])
        drawn = slice(golden["split_draw_off"][example], golden["split_draw_off"][example + 1])
        draws = Recorded(
            golden["split_draw_kind"][drawn].tolist(),
            golden["split_draw_value"][drawn].tolist(),
            text.borders(begin + reuse, begin + reuse + total),
        )
        pair = split_pair(text, begin=begin + reuse, total=total, draws=draws)
        a, b = own[slice(*pair.a)], own[slice(*pair.b)]
        built = [*own[begin : begin + reuse], *a, SEP, *b, SEP, CLS]
        assert built == golden["input"][example].tolist()
        assert segments(reuse=reuse, a=len(a), b=len(b)).tolist() == golden["seg_id"][example].tolist()
        assert pair.follows == bool(golden["label"][example][0])
        assert len(built) == length


@given(st.integers(1, 60), st.integers(1, 60), st.integers(2, 60))
def test_trim_equals_dropping_one_by_one(a: int, b: int, total: int) -> None:
    left, right = a, b
    while left + right > total:
        if left > right:
            left -= 1
        else:
            right -= 1
    assert trim(a, b, total) == (left, right)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 5), streams=st.integers(1, 5), number=st.integers(0, 4), backward=st.booleans())
def test_borders_of_a_stream_equal_the_naive_twin(
    train: Split, seed: int, streams: int, number: int, backward: bool
) -> None:
    size = train.token_count // streams
    begin = number % streams * size
    ids, _, borders = stream_of(train, seed=seed, epoch=1)
    marks = np.zeros(len(ids) + 1, dtype=np.int64)
    marks[borders] = 1
    sentence = np.cumsum(marks)[begin : begin + size]
    text = Numbers(sentence[::-1] if backward else sentence)
    stream = Stream(Concatenation.of(train, seed=seed, epoch=1, shuffle=True), begin, size, backward)
    draws = random.Random(seed)
    for _ in range(20):
        low, high = sorted((draws.randrange(size + 1), draws.randrange(size + 1)))
        assert stream.border_after(low) == text.border_after(low)
        assert stream.border_before(high) == text.border_before(high)
        if low < high:
            assert stream.borders(low, high).tolist() == text.borders(low, high).tolist()


@pytest.mark.parametrize("bidirectional", [False, True])
def test_pair_rows_equal_the_naive_twin(train: Split, bidirectional: bool) -> None:
    rows, length, stride = 4, 40, 18
    reader = Rows(train, rows=rows, length=length, stride=stride, layout="pairs", bidirectional=bidirectional, seed=2)
    streams = rows // 2 if bidirectional else rows
    size, total = train.token_count // streams, length - stride - 3
    labels = []
    for step in (*range(12), reader.steps_per_epoch - 1, reader.steps_per_epoch):
        epoch, within = divmod(step, reader.steps_per_epoch)
        ids, _, borders = stream_of(train, seed=2, epoch=epoch)
        marks = np.zeros(len(ids) + 1, dtype=np.int64)
        marks[borders] = 1
        batch = reader.batch(step)
        batch.check(vocab_size=train.vocab.size)
        uniform = Draws(2, step, rows=rows, purpose="pairs").rand(4).double().numpy()
        for row in range(rows):
            turn = -1 if row >= streams else 1
            part = slice(row % streams * size, (row % streams + 1) * size)
            own, text = ids[part][::turn], Numbers(np.cumsum(marks)[part][::turn])
            begin = within * stride
            pair = split_pair(text, begin=begin + stride, total=total, draws=_KeyedDraws(uniform[row]))
            expected = [*own[begin : begin + stride], *own[slice(*pair.a)], SEP, *own[slice(*pair.b)], SEP, CLS]
            assert batch.ids[row].tolist() == expected
            assert batch.labels["next_sentence"][row] == pair.follows
            assert batch.segment is not None
            assert batch.word is not None
            assert (
                batch.segment[row].tolist()
                == segments(reuse=stride, a=pair.a[1] - pair.a[0], b=pair.b[1] - pair.b[0]).tolist()
            )
            assert batch.fixed[row].tolist() == [token in (SEP, CLS) for token in expected]
            assert batch.word[row].tolist() == naive_words(expected[::turn], train.tokenizer)[::turn]
            labels.append(pair.follows)
        assert batch.block is not None
        assert batch.block.tolist() == [[0] * stride + [1] * (length - stride)] * rows
        assert not batch.doc.any()
    assert 0.25 < np.mean(labels) < 0.75
    assert (
        (reader.steps_per_epoch - 1) * stride + stride + total
        < size
        <= reader.steps_per_epoch * stride + stride + total
    )


@pytest.mark.parametrize("bidirectional", [False, True])
def test_swapped_pairs_are_neighbours_and_the_label_says_in_which_order(train: Split, bidirectional: bool) -> None:
    """Both segments are found again in the text, from the ids of the row alone."""
    rows, length, stride = 8, 40, 12
    options = {"rows": rows, "length": length, "stride": stride, "bidirectional": bidirectional, "seed": 2}
    reader = Rows(train, layout="pairs", negatives="swapped", **options)  # type: ignore[arg-type]
    streams = rows // 2 if bidirectional else rows
    size, total = train.token_count // streams, length - stride - 3
    labels, cuts_at_borders, cuts = [], 0, 0
    for step in range(12):
        batch = reader.batch(step)
        assert set(batch.labels) == {"sentence_order"}
        ids, _, borders = stream_of(train, seed=2, epoch=0)
        for row in range(rows):
            part = slice(row % streams * size, (row % streams + 1) * size)
            backward = row >= streams
            own = ids[part][:: -1 if backward else 1]
            begin = step * stride
            found = batch.ids[row].tolist()
            assert found[:stride] == own[begin : begin + stride]
            assert found[-2:] == [SEP, CLS]
            middle = found[stride:-2].index(SEP)
            first, second = found[stride:][:middle], found[stride:-2][middle + 1 :]
            assert first
            assert second
            swapped = bool(batch.labels["sentence_order"][row])
            text = own[begin + stride : begin + stride + total]
            assert (second + first if swapped else first + second) == text
            cut = begin + stride + len(second if swapped else first)
            natural = part.start + (size - cut if backward else cut)
            inside = [b for b in borders if (b - part.start if not backward else part.stop - b) > begin + stride]
            inside = [b for b in inside if (b - part.start if not backward else part.stop - b) < begin + stride + total]
            if inside:
                cuts += 1
                cuts_at_borders += natural in inside
            assert batch.segment is not None
            assert batch.segment[row, stride + middle :].tolist() == [0] + [1] * (len(second) + 1) + [2]
            labels.append(swapped)
    assert cuts_at_borders == cuts > 40
    assert 0.35 < np.mean(labels) < 0.65
    again = Rows(train, layout="pairs", negatives="swapped", **options)  # type: ignore[arg-type]
    for step in (7, 3):
        assert equal(again.batch(step), reader.batch(step))
