"""A corpus of a few documents, quick to prepare, and a recipe on it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anyorder.data import Tokenizer, prepare

DATA = Path(__file__).parents[2] / "packages" / "anyorder-data" / "tests" / "data"


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    text = " ".join((DATA / "b.txt").read_text(encoding="utf-8").split())
    records = ({"text": f"Number {n}. {text[n : n + 300]}\n\nAnd {n * n}."} for n in range(120))
    (folder / "text.jsonl").write_text("\n".join(json.dumps(record) for record in records), encoding="utf-8")
    tokenizer = Tokenizer.load(DATA / "spiece.model")
    out = folder / "corpus"
    prepare([folder / "text.jsonl"], out, tokenizer=tokenizer, valid_fraction=0.2, workers=1, progress=False)
    return out


RECIPE = """
name: {name}
seed: 1
data: {{corpus: {corpus}, length: 32}}
model: {{n_layer: 1, d_model: 16, n_head: 2, d_inner: 32, dropout: 0.0, attention_dropout: 0.0}}
memory: {{type: segment, mem_len: 16, reuse_len: 16}}
optimizer: {{lr: 1e-3}}
train: {{steps: 2, batch_size: 2, device: cpu}}
tracking: {{type: none}}
objective:
  order: {order}
  masks: {masks}
  loss: {{type: cross_entropy}}
"""

OBJECTIVES = {
    "plm": ("{type: permutation}", "{type: two_stream}"),
    "mlm": ("{type: subset}", "{type: in_place, mask: 1.0, random: 0.0}"),
    "clm": ("{type: left_to_right}", "{type: shift}"),
}


@pytest.fixture
def recipes(tmp_path: Path, corpus: Path) -> dict[str, Path]:
    found = {}
    for name, (order, masks) in OBJECTIVES.items():
        found[name] = tmp_path / f"{name}.yaml"
        found[name].write_text(RECIPE.format(name=name, corpus=corpus, order=order, masks=masks), encoding="utf-8")
    return found
