"""What is held out, and where long documents are cut."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive_corpus import DATA, documents, many

from anyorder.core import DataError
from anyorder.data import Tokenizer, prepare
from anyorder.data.writer import choose_valid


def test_split_is_document_exact_and_keeps_copies_together(tmp_path: Path, tokenizer: Tokenizer) -> None:
    source = many(tmp_path / "x.jsonl", 150)
    lines = source.read_text().splitlines()
    source.write_text("\n".join(lines * 2))  # every document twice
    corpus = prepare(source, tmp_path / "c", tokenizer=tokenizer, valid_fraction=0.1, progress=False)
    train, valid = corpus.split("train"), corpus.split("valid")
    sides = [{train.document(n).tobytes() for n in range(train.documents)}]
    sides.append({valid.document(n).tobytes() for n in range(valid.documents)})
    assert not sides[0] & sides[1]
    assert train.documents + valid.documents == 300
    assert 0.07 < valid.token_count / (train.token_count + valid.token_count) < 0.15
    for name, split in (("train", train), ("valid", valid)):
        described = corpus.manifest.splits[name]
        assert described["documents"] == split.documents
        assert described["tokens"] == split.token_count
        tokens = np.concatenate([split.document(n) for n in range(split.documents)])
        assert described["bytes"] == int(tokenizer.piece_bytes[tokens].sum())
    other = prepare(source, tmp_path / "d", tokenizer=tokenizer, valid_documents=4, seed=3, progress=False)
    assert other.split("valid").documents == 8  # four, twice each


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 100)), min_size=1, max_size=40),
    st.floats(0, 0.9),
    st.none() | st.integers(0, 50),
)
def test_split_always_leaves_training_text(
    documents: list[tuple[int, int]], fraction: float, count: int | None
) -> None:
    keys = np.array([key for key, _ in documents], dtype=np.uint64)
    lengths = np.array([length for _, length in documents])
    held_out = choose_valid(keys, lengths, fraction=fraction, count=count)
    rest = np.setdiff1d(np.arange(len(keys)), held_out)
    assert len(rest)
    assert not set(keys[held_out].tolist()) & set(keys[rest].tolist())
    wanted = count if count is not None else fraction > 0
    assert bool(len(held_out)) == bool(wanted and len(set(keys.tolist())) > 1)


@pytest.mark.parametrize("limit", [2, 5, 17, 64, 400])
def test_long_documents_are_cut_at_borders(tmp_path: Path, tokenizer: Tokenizer, limit: int) -> None:
    whole = prepare(
        DATA / "a.txt", tmp_path / "w", tokenizer=tokenizer, max_document_pieces=None, valid_fraction=0, progress=False
    )
    cut = prepare(
        DATA / "a.txt", tmp_path / "c", tokenizer=tokenizer, max_document_pieces=limit, valid_fraction=0, progress=False
    )
    eod = tokenizer.vocab.eod
    parts = documents(cut)
    assert all(len(part) <= limit and part[-1] == eod for part in parts)
    assert [token for part in parts for token in part[:-1]] == documents(whole)[0][:-1]
    if limit == 400:  # larger than any paragraph of the file but the first: every part begins one
        assert len(parts) < 2 * cut.manifest.counts["tokens"] / limit
    ends = cut.split("train").sentence_ends
    assert (np.diff(ends) > 0).all()
    assert set(np.cumsum([len(part) for part in parts]).tolist()) <= set(ends.tolist())


def test_few_books_give_a_sensible_validation_set(tmp_path: Path, tokenizer: Tokenizer) -> None:
    text = (DATA / "a.txt").read_text(encoding="utf-8")
    (tmp_path / "book.txt").write_text("\n\n".join(f"Chapter {n}\n\n{text}" for n in range(60)), encoding="utf-8")
    corpus = prepare(
        tmp_path / "book.txt", tmp_path / "c", tokenizer=tokenizer, max_document_pieces=1024, valid_fraction=0.05,
        progress=False,
    )  # fmt: skip
    held_out, total = corpus.manifest.splits["valid"]["tokens"], corpus.manifest.counts["tokens"]
    assert 0.04 < held_out / total < 0.08


def test_a_single_short_document_is_all_training(
    tmp_path: Path, tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.txt").write_text("Short.")
    corpus = prepare(tmp_path / "x.txt", tmp_path / "c", tokenizer=tokenizer)
    assert "nothing is held out" in capsys.readouterr().err
    assert corpus.split("train").documents == 1
    with pytest.raises(DataError, match="the 'valid' split is empty"):
        corpus.split("valid")
