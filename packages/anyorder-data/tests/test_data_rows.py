import json
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anyorder.core import DataError, Draws, TokenBatch
from anyorder.data import Corpus, Rows, Tokenizer, prepare, windows
from anyorder.data.corpus import Split
from anyorder.data.pairs import segments, split_pair, trim
from anyorder.data.rows import _KeyedDraws
from anyorder.data.stream import Concatenation, Stream

DATA = Path(__file__).parent / "data"
SEP, CLS = 4, 3


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("rows")
    text = " ".join((DATA / "a.txt").read_text(encoding="utf-8").split())
    draws = random.Random(5)
    records = []
    for number in range(120):
        start, size = draws.randrange(len(text)), draws.choice([3, 20, 80, 300, 900])
        records.append({"text": f"Number {number}. " + text[start : start + size] + " End."})
    (folder / "x.jsonl").write_text("\n".join(map(json.dumps, records)))
    return prepare(
        folder / "x.jsonl", folder / "c", tokenizer=DATA / "spiece.model", valid_fraction=0.3, progress=False
    )


@pytest.fixture(scope="module")
def train(corpus: Corpus) -> Split:
    return corpus.split("train")


def stream_of(split: Split, *, seed: int, epoch: int, shuffle: bool = True) -> tuple[list[int], list[int], list[int]]:
    """The naive twin: all tokens, document numbers and sentence borders of an epoch, materialised."""
    order = list(range(split.documents))
    if shuffle:
        order = Draws(seed, epoch, rows=1, purpose="documents").permutation(split.documents)[0].tolist()
    ids, doc, borders = [], [], [0]
    all_ends = split.sentence_ends.tolist()
    for place, number in enumerate(order):
        tokens = split.document(number).tolist()
        start = int(split.starts[number])
        borders += [end - start + len(ids) for end in all_ends if start < end <= start + len(tokens)]
        ids += tokens
        doc += [place] * len(tokens)
    return ids, doc, borders


def naive_words(ids: list[int], tokenizer: Tokenizer) -> list[int]:
    number, words = 0, []
    for token in ids:
        number += bool(tokenizer.starts_word[token])
        words.append(number)
    return words


def equal(one: TokenBatch, two: TokenBatch) -> bool:
    def same(a: object, b: object) -> bool:
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            return torch.equal(a, b)
        if isinstance(a, dict) and isinstance(b, dict):
            return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
        return a is None and b is None

    return all(same(value, vars(two)[name]) for name, value in vars(one).items())


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 4),
    length=st.integers(1, 70),
    part=st.integers(1, 70),
    seed=st.integers(0, 3),
    bidirectional=st.booleans(),
    isolate=st.booleans(),
    shuffle=st.booleans(),
)
def test_every_batch_equals_the_naive_twin(
    train: Split, rows: int, length: int, part: int, seed: int, bidirectional: bool, isolate: bool, shuffle: bool
) -> None:
    stride = min(part, length)
    rows = 2 * rows if bidirectional else rows
    reader = Rows(
        train, rows=rows, length=length, stride=stride, seed=seed, bidirectional=bidirectional,
        isolate_documents=isolate, shuffle_documents=shuffle,
    )  # fmt: skip
    streams = rows // 2 if bidirectional else rows
    size = train.token_count // streams
    assert reader.steps_per_epoch == len([t for t in range(size) if t * stride + length <= size])
    last = reader.steps_per_epoch - 1
    for step in {0, last // 2, last, last + 1, 2 * last + 2}:
        epoch, within = step // reader.steps_per_epoch, step % reader.steps_per_epoch
        ids, doc, _ = stream_of(train, seed=seed, epoch=epoch, shuffle=shuffle)
        batch = reader.batch(step)
        batch.check(vocab_size=train.vocab.size)
        assert batch.fresh.tolist() == [within == 0] * rows
        assert not batch.fixed.any()
        for row in range(rows):
            backward = row >= streams
            begin = (row % streams) * size
            own_ids, own_doc = ids[begin : begin + size], doc[begin : begin + size]
            if backward:
                own_ids, own_doc = own_ids[::-1], own_doc[::-1]
            window = slice(within * stride, within * stride + length)
            assert batch.ids[row].tolist() == own_ids[window]
            assert batch.doc[row].tolist() == (own_doc[window] if isolate else [0] * length)
            text = own_ids[window][:: -1 if backward else 1]
            assert batch.word is not None
            assert batch.word[row].tolist() == naive_words(text, train.tokenizer)[:: -1 if backward else 1]
        if bidirectional:
            assert batch.direction is not None
            assert batch.direction.tolist() == [1] * streams + [-1] * streams
        else:
            assert batch.direction is None
        if stride == length:
            assert batch.block is None
        else:
            assert batch.block is not None
            assert batch.block.tolist() == [[0] * stride + [1] * (length - stride)] * rows


def test_a_batch_is_a_function_of_its_step(train: Split) -> None:
    one = Rows(train, rows=4, length=32, stride=16, bidirectional=True, layout="pairs", seed=7)
    steps = [0, 5, one.steps_per_epoch + 1, 3, 5]
    first = [one.batch(step) for step in steps]
    for step, batch in zip(steps, first, strict=True):
        other = Rows(train, rows=4, length=32, stride=16, bidirectional=True, layout="pairs", seed=7)
        assert equal(other.batch(step), batch)
    assert not equal(Rows(train, rows=4, length=32, stride=16, bidirectional=True, seed=8).batch(5), first[1])
    assert not torch.equal(first[0].ids, one.batch(one.steps_per_epoch).ids)  # a new order each epoch


@pytest.mark.parametrize(("layout", "negatives"), [("plain", "random"), ("pairs", "random"), ("pairs", "swapped")])
def test_ranks_share_the_rows_of_one_process(train: Split, layout: str, negatives: str) -> None:
    options = {"rows": 4, "length": 24, "stride": 12, "bidirectional": True, "layout": layout, "seed": 3}
    options["negatives"] = negatives
    whole = Rows(train, **options)  # type: ignore[arg-type]
    parts = [Rows(train, **options, rank=rank, world=4) for rank in range(4)]  # type: ignore[arg-type]
    assert torch.cat([part.row_numbers for part in parts]).tolist() == [0, 1, 2, 3]
    assert {part.tokens_per_step for part in parts} == {whole.tokens_per_step} == {96}
    for step in (0, 2):
        batch = whole.batch(step)
        for rank, part in enumerate(parts):
            own = batch.map(lambda tensor, rank=rank: tensor[rank : rank + 1])  # type: ignore[misc]
            assert equal(part.batch(step), own)


def test_streams_cover_the_text_once_an_epoch(train: Split) -> None:
    reader = Rows(train, rows=3, length=16)
    read = torch.cat([reader.batch(step).ids for step in range(reader.steps_per_epoch)], dim=1)
    ids = stream_of(train, seed=0, epoch=0)[0]
    size = reader.stream_length
    for row in range(3):
        own = ids[row * size : (row + 1) * size]
        assert read[row].tolist() == own[: read.shape[1]]
        assert size - read.shape[1] < 16
    assert 3 * size > train.token_count - 3
    assert reader.new_tokens_per_step == 48


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"rows": 3, "bidirectional": True}, "rows is 3, it must be even"),
        ({"rows": 4, "world": 3}, "rows is 4; it must be a multiple of the 3 ranks"),
        ({"rows": 0}, "rows is 0; it must be at least 1"),
        ({"stride": 17}, r"stride 17 is larger than length 16: .* at most 16"),
        ({"stride": 0}, "stride is 0"),
        ({"rows": 10_000}, r"tokens, \d+ for each of 10000 streams, and a segment needs 16: use at most \d+ streams"),
        ({"layout": "pair"}, "layout 'pair' is unknown; .*did you mean 'pairs'"),
        ({"layout": "pairs", "stride": 12}, r"at most length - 5 = 11"),
        ({"layout": "pairs", "isolate_documents": True}, "joins text of two documents"),
        ({"layout": "pairs", "negatives": "swap"}, "negatives 'swap' is unknown; .*did you mean 'swapped'"),
        ({"rank": 2, "world": 2}, "rank 2 is not among 2 ranks"),
    ],
)
def test_bad_arguments_are_named(train: Split, options: dict, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        Rows(train, **{"rows": 4, "length": 16, **options})


def test_documents_shorter_than_a_segment_are_packed(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("\n".join(json.dumps({"text": f"No {n}."}) for n in range(60)))
    corpus = prepare(
        tmp_path / "x.jsonl", tmp_path / "c", tokenizer=DATA / "spiece.model", valid_fraction=0.3, progress=False
    )
    batch = Rows(corpus.split("train"), rows=2, length=64, isolate_documents=True).batch(0)
    assert batch.doc.unique().numel() > 10
    held_out = windows(corpus.split("valid"), length=8)
    assert (held_out.doc[:, 0] == 0).all()
    assert (held_out.doc.diff(dim=1) == (held_out.ids[:, :-1] == 7).long()).all()


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


def test_windows_lie_inside_documents(corpus: Corpus) -> None:
    split = corpus.split("valid")
    every = windows(split, length=20, stride=7)
    expected = []
    for number in range(split.documents):
        document = split.document(number).tolist()
        expected += [document[i : i + 20] for i in range(0, len(document) - 19, 7)]
    assert every.ids.tolist() == expected
    assert every.fresh.all()
    assert not every.doc.any()
    assert every.word is not None
    assert every.word[3].tolist() == naive_words(expected[3], split.tokenizer)
    some = windows(split, length=20, stride=7, limit=9, seed=1)
    assert equal(some, windows(split, length=20, stride=7, limit=9, seed=1))
    rest = iter(expected)
    assert len(some.ids) == 9
    assert all(row in rest for row in some.ids.tolist())  # in the order of the text
    assert some.ids.tolist() != windows(split, length=20, stride=7, limit=9, seed=2).ids.tolist()
    with pytest.raises(DataError, match="fewer than one window of 1000000"):
        windows(split, length=1_000_000)
    with pytest.raises(DataError, match="stride is 0"):
        windows(split, length=5, stride=0)


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
