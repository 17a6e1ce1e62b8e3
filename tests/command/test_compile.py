"""``train.compile`` from the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from anyorder.train.objective import Objective


@pytest.mark.slow
def test_a_recipe_asks_for_a_compiled_run(anyorder: Callable, recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The backend is chosen for it, with the reason why not the usual one."""
    from torch._dynamo.utils import counters

    monkeypatch.setattr(Objective, "compile", lambda self: torch.nn.Module.compile(self, backend="aot_eager"))
    torch._dynamo.reset()
    counters.clear()
    ran = anyorder("train", recipe, "--out", "run", "--set", "train.compile=true")
    torch._dynamo.reset()
    assert ran.code == 0, ran.err
    assert "attention backend sdpa (tiled refused: torch.compile cannot follow its tiles" in ran.err
    assert counters["stats"]["unique_graphs"] == 2  # one to train, one to evaluate
    assert not counters["graph_break"]


def test_a_backend_that_cannot_be_compiled_is_refused_at_once(refused: Callable, recipe: Path) -> None:
    said = refused("train", recipe, "--out", "run", "--set", "train.compile=true", "--set", "attention.type=tiled")
    assert "attention backend 'tiled' cannot serve this run: torch.compile cannot follow its tiles" in said
