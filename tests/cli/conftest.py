"""Recipes on the small corpus."""

from __future__ import annotations

from pathlib import Path

import pytest

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
