"""A corpus of a few documents, quick to prepare."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

DATA = Path(__file__).parents[1] / "packages" / "anyorder-data" / "tests" / "data"


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from anyorder.data import Tokenizer, prepare

    folder = tmp_path_factory.mktemp("text")
    text = " ".join((DATA / "b.txt").read_text(encoding="utf-8").split())
    records = ({"text": f"Number {n}. {text[n : n + 300]}\n\nAnd {n * n}."} for n in range(120))
    (folder / "text.jsonl").write_text("\n".join(json.dumps(record) for record in records), encoding="utf-8")
    tokenizer = Tokenizer.load(DATA / "spiece.model")
    out = folder / "corpus"
    prepare([folder / "text.jsonl"], out, tokenizer=tokenizer, valid_fraction=0.2, workers=1, progress=False)
    return out
