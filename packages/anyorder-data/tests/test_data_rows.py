import json
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_corpus import DATA, equal, naive_words, stream_of

from anyorder.core import DataError
from anyorder.data import Corpus, Rows, prepare, windows
from anyorder.data.corpus import Split


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
