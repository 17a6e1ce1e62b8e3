"""A corpus that is damaged, of another kind or of another tokenizer is refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from naive_corpus import DATA, many

from anyorder.core import DataError
from anyorder.data import Corpus, Tokenizer, prepare


@pytest.mark.parametrize("name", ["tokens.bin", "documents.bin", "sentences.bin", "valid.bin", "tokenizer.model"])
def test_truncated_and_altered_files_are_refused_and_mended(tmp_path: Path, tokenizer: Tokenizer, name: str) -> None:
    source, out = many(tmp_path / "x.jsonl"), tmp_path / "c"
    prepare(source, out, tokenizer=tokenizer, progress=False)
    whole = (out / name).read_bytes()
    altered = bytes([whole[0] ^ 1]) + whole[1:]
    for content, problem in ((whole[:-2], "truncated or altered"), (altered, "was altered since")):
        (out / name).write_bytes(content)
        with pytest.raises(DataError, match=rf"{name}: .*{problem}"):
            Corpus.open(out)
    (out / name).unlink()
    with pytest.raises(DataError, match=f"{name}: is missing"):
        Corpus.open(out)
    prepare(source, out, tokenizer=tokenizer, progress=False)
    assert (out / name).read_bytes() == whole


def test_manifests_of_another_kind_are_refused(tmp_path: Path, tokenizer: Tokenizer) -> None:
    out = tmp_path / "c"
    with pytest.raises(DataError, match="does not exist; make one with `anyorder prepare`"):
        Corpus.open(out)
    prepare(many(tmp_path / "x.jsonl"), out, tokenizer=tokenizer, progress=False)
    good = json.loads((out / "manifest.json").read_text())
    for change, problem in (
        ({"format": "other"}, "not the manifest of a corpus"),
        ({"version": 99}, "format version 99, this release reads 1"),
    ):
        (out / "manifest.json").write_text(json.dumps({**good, **change}))
        with pytest.raises(DataError, match=problem):
            Corpus.open(out)
    (out / "manifest.json").write_text("{")
    with pytest.raises(DataError, match="cannot be read"):
        Corpus.open(out)
    with pytest.raises(DataError, match="with overwrite to replace"):
        prepare(tmp_path / "x.jsonl", out, tokenizer=tokenizer, progress=False)
    prepare(tmp_path / "x.jsonl", out, tokenizer=tokenizer, overwrite=True, progress=False)
    assert json.loads((out / "manifest.json").read_text()) == good
    (out / "manifest.json").unlink()
    with pytest.raises(DataError, match=r"has no manifest\.json"):
        Corpus.open(out)


def test_another_tokenizer_is_refused(tmp_path: Path, tokenizer: Tokenizer) -> None:
    prepare(many(tmp_path / "x.jsonl"), tmp_path / "c", tokenizer=tokenizer, progress=False)
    assert Corpus.open(tmp_path / "c", tokenizer=tokenizer).tokenizer.sha256 == tokenizer.sha256
    with pytest.raises(DataError, match=r"another tokenizer than .*digits\.model \(another model\)"):
        Corpus.open(tmp_path / "c", tokenizer=Tokenizer.load(DATA / "digits.model"))
    with pytest.raises(DataError, match="another clean-up settings"):
        Corpus.open(tmp_path / "c", tokenizer=Tokenizer.load(DATA / "spiece.model", lower=True))


def test_unknown_split_is_named(tmp_path: Path, tokenizer: Tokenizer) -> None:
    corpus = prepare(many(tmp_path / "x.jsonl"), tmp_path / "c", tokenizer=tokenizer, progress=False)
    with pytest.raises(DataError, match="no split 'vaild'; allowed: 'train', 'valid'; did you mean 'valid'"):
        corpus.split("vaild")
