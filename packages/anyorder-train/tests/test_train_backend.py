"""What an attention backend is asked before a run, and which one ``auto`` takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from anyorder.core import DEATH, SPAN, AttentionRequest, BackendUnsupportedError, Vocab, available, find
from anyorder.train.assemble import assemble
from anyorder.train.backend import AutoBackend, reasons, require
from anyorder.train.capabilities import capabilities, uses
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


REQUEST = uses(torch.device("cpu"))["dropout"]


@pytest.mark.parametrize(("change", "taken"), [({}, "tiled"), ({"compiled": True}, "sdpa")])
def test_auto_takes_the_fastest_that_serves_and_logs_why_not_the_others(
    caplog: pytest.LogCaptureFixture, change: dict[str, Any], taken: str
) -> None:
    request = replace(REQUEST, **change)
    with caplog.at_level("INFO", logger="anyorder.train.backend"):
        backend = require(AutoBackend(), request)
    assert backend.name == taken
    assert backend.refuse(request) is None
    (line,) = caplog.messages
    before, _, after = line.partition("not asked, as slower: ")
    assert before.startswith(f"attention backend {taken} (")
    prefer = AutoBackend().prefer
    for place, name in enumerate(prefer):
        if place < prefer.index(taken):
            assert f"{name} refused: {find('attention', name)().refuse(request)}" in before
        elif place > prefer.index(taken):
            assert name in after


def test_auto_passes_over_what_is_not_installed_and_says_why_nothing_serves() -> None:
    assert AutoBackend(prefer=("no-such-backend", "naive")).choose(REQUEST).backend.name == "naive"
    with pytest.raises(BackendUnsupportedError, match=r"can serve this run \(flex: FlexAttention has no dropout"):
        AutoBackend(prefer=("flex",)).choose(REQUEST)


def test_capabilities_ask_every_backend_what_a_run_would_ask() -> None:
    found = {each.name: each for each in capabilities(torch.device("cpu"))}
    assert list(found)[: len(AutoBackend().prefer)] == list(AutoBackend().prefer)
    assert set(found) == set(available("attention"))
    for use, request in uses(torch.device("cpu")).items():
        for name, answer in reasons(request).items():
            assert found[name].refusals[use] == answer
    assert found["naive"].reasons() == {}
    assert all(not refused for refused in found["xformers"].reasons().values())
    assert set(found["flex"].reasons()) == {found["flex"].refusals[use] for use in ("train fp32", "dropout")}
