"""What an attention backend is asked before a run, and which one ``auto`` takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from anyorder.core import DEATH, SPAN, AttentionRequest, BackendUnsupportedError, Vocab
from anyorder.train.assemble import assemble
from anyorder.train.recipe import load_recipe

SPY = """
from anyorder.attention import Naive
from anyorder.masks import TwoStream

class Asked(Naive):
    name = "asked"
    requests = []

    def refuse(self, request):
        self.requests.append(request)
        return "it only asks" if request.compiled else None

class Narrow(TwoStream):
    rules = frozenset({"span"})
"""

RECIPE = """
data: {vocab_size: 300, length: 32}
model: {n_layer: 1, d_model: 16, n_head: 2, d_inner: 32, attention_dropout: 0.2}
objective:
  order: {type: permutation}
  masks: {type: two_stream}
  loss: {type: cross_entropy}
attention: {type: spy.Asked}
train: {steps: 5, batch_size: 4}
tracking: none
"""


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Assemble a recipe and give what its backend was asked."""
    monkeypatch.chdir(tmp_path)
    Path("spy.py").write_text(SPY)
    Path("r.yaml").write_text(RECIPE)

    def ask(*settings: str, **computing: Any) -> AttentionRequest:
        recipe = load_recipe("r.yaml", overrides=settings)
        objective: Any = assemble(recipe, vocab=Vocab(size=300), **computing)
        (layer,) = objective.backbone.layers
        request: AttentionRequest = layer.attention.backend.requests[-1]
        return request

    return ask


def test_a_backend_is_told_all_that_decides(asked: Any) -> None:
    assert asked() == AttentionRequest(
        device=torch.device("cpu"),
        dtype=torch.float32,
        training=True,
        bias=True,
        bias_grad=True,
        dropout=0.2,
        head_dim=8,
    )
    assert asked(dtype=torch.bfloat16).dtype == torch.bfloat16
    assert asked(deterministic=True).deterministic
    evaluation = asked(training=False)
    assert (evaluation.training, evaluation.bias, evaluation.bias_grad, evaluation.dropout) == (False, True, False, 0.0)
    bare = asked("model.biases=[]")
    assert (bare.bias, bare.bias_grad) == (False, False)


def test_a_backend_is_told_which_rules_of_visibility_are_used(asked: Any) -> None:
    assert asked("objective.masks.type=mpnet").rules == {DEATH}
    assert asked("objective.masks={type: spy.Narrow}").rules == {SPAN}


def test_a_refusal_stops_the_run_before_it_begins_with_the_reason(asked: Any) -> None:
    with pytest.raises(BackendUnsupportedError, match="'asked' cannot serve this run: it only asks; use attention"):
        asked(compiled=True)
