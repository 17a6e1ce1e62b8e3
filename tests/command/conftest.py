"""A small corpus and recipe to give to the command."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from anyorder.cli.main import main

RECIPE = """\
name: small
data: {{corpus: {corpus}, length: 32}}
model: {{n_layer: 1, d_model: 16, n_head: 2, d_inner: 32}}
objective:
  order: {{type: permutation, perm_size: 16}}
  masks: {{type: two_stream}}
  loss: {{type: cross_entropy}}
memory: {{type: segment, mem_len: 16, reuse_len: 16}}
train: {{steps: 4, batch_size: 4, eval_batches: 1, checkpoint_every: 2, device: cpu}}
tracking: none
"""


def prose(*, documents: int, words: int, seed: int = 0, letters: str = "abcdefghij") -> str:
    """Documents of invented words, divided by form feeds."""
    draw = random.Random(seed)
    known = ["".join(draw.choice(letters) for _ in range(draw.randint(1, 6))) for _ in range(400)]
    return "\f".join(" ".join(draw.choice(known) for _ in range(words)) for _ in range(documents))


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "text.txt").write_text(prose(documents=20, words=600))
    assert main(["prepare", str(folder / "text.txt"), "--out", str(folder / "made"), "--vocab-size", "200"]) == 0
    return folder / "made"


@pytest.fixture
def recipe(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draw_nothing: None) -> Path:
    """A recipe on that corpus, in a folder of its own, which is the working folder; runs draw no curves."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(RECIPE.format(corpus=corpus))
    return Path("small.yaml")
