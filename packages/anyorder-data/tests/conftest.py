"""Small corpora, and their helpers made importable from the tests beside them."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest

from anyorder.data import Corpus, Tokenizer, prepare
from anyorder.data.corpus import Split

sys.path.append(str(Path(__file__).parent))
DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(DATA / "spiece.model")


@pytest.fixture(scope="session")
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


@pytest.fixture(scope="session")
def train(corpus: Corpus) -> Split:
    return corpus.split("train")
