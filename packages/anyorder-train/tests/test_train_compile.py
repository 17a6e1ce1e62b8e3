"""A compiled training step: one graph for all batches, with the numbers of the plain one."""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from small_training import CountingText, small_fit, small_objective
from torch._dynamo.utils import counters

from anyorder.train.objective import Objective


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """What was compiled is forgotten, and a second graph of anything is an error."""
    torch._dynamo.reset()
    counters.clear()
    with torch._dynamo.config.patch(error_on_recompile=True):
        yield
    torch._dynamo.reset()


def compare_steps(plain: Objective, compiled: Objective, *, steps: int) -> None:
    """Make steps of different orders, memory going on from each to the next and dropped between texts."""
    text = CountingText(restart=3)
    memories = [plain.empty_memory(text.rows), compiled.empty_memory(text.rows)]
    for step in range(steps):
        batch = text.batch(step)
        streams = plain.prepare(batch, seed=1, step=step)
        losses = []
        for place, objective in enumerate((plain, compiled)):
            memory = memories[place]
            assert memory is not None
            objective.zero_grad()
            output = objective(streams, memory.drop(batch.fresh))
            total = objective.total(output.losses, objective.weight_sums(streams))
            total.backward()
            losses.append(total.item())
            memories[place] = output.memory
        assert losses[1] == pytest.approx(losses[0], rel=1e-5)
        for (name, one), two in zip(plain.named_parameters(), compiled.parameters(), strict=True):
            assert (one.grad is None) == (two.grad is None), name
            if one.grad is not None and two.grad is not None:
                expected, found = one.grad.to_dense(), two.grad.to_dense()
                # Sums of float32 in another order, over a few thousand terms.
                torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max()))
    for past, other in zip(memories[0].layers, memories[1].layers, strict=True):  # type: ignore[union-attr]
        torch.testing.assert_close(other, past, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plm", "mlm", "clm"])
def test_a_step_is_one_graph_whatever_the_batch_and_memory(kind: str) -> None:
    """The whole of torch.compile but its last stage, which needs a C++ compiler."""
    plain = small_objective(kind).train()
    compiled = copy.deepcopy(plain)
    torch.nn.Module.compile(compiled, backend="aot_eager")
    compare_steps(plain, compiled, steps=5)
    assert counters["stats"]["unique_graphs"] == 1
    assert not counters["graph_break"]


@pytest.mark.slow
def test_dropout_is_in_the_graph() -> None:
    objective = small_objective(dropout=0.2).train()
    torch.nn.Module.compile(objective, backend="aot_eager")
    text, found = CountingText(), []
    for step in (0, 0, 1, 2):
        streams = objective.prepare(text.batch(step), seed=1, step=step)
        output = objective(streams, objective.empty_memory(text.rows))
        found.append(output.losses["loss"].loss_sum.item())
    assert found[0] != found[1], "dropout had no effect, or was drawn once for all steps"
    assert counters["stats"]["unique_graphs"] == 1
    assert not counters["graph_break"]


@pytest.mark.slow
def test_inductor_gives_the_same() -> None:
    """All of torch.compile: about a minute and a half on one core, most of it in the C++ compiler."""
    if not any(shutil.which(name) for name in (os.environ.get("CXX", ""), "g++", "clang++")):
        pytest.skip("torch.compile needs a C++ compiler on a CPU")
    plain = small_objective().train()
    compiled = copy.deepcopy(plain)
    compiled.compile()
    compare_steps(plain, compiled, steps=4)
    assert counters["stats"]["unique_graphs"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plm", "clm"])
def test_a_compiled_run_is_the_plain_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """``train.compile``: one graph to train and one to evaluate."""
    monkeypatch.setattr(Objective, "compile", lambda self: torch.nn.Module.compile(self, backend="aot_eager"))
    with torch._dynamo.config.patch(error_on_recompile=False):  # evaluation is a second graph of the same function
        plain, compiled = (run(tmp_path / str(on), kind, compile=on) for on in (False, True))
    assert compiled == pytest.approx(plain, rel=1e-6)
    assert counters["stats"]["unique_graphs"] == 2
    assert not counters["graph_break"]


def run(folder: Path, kind: str, **changes: Any) -> list[float]:
    """The losses of a short run, those on held-out text among them."""
    fitted = small_fit(
        folder, objective=small_objective(kind), valid=CountingText(purpose="v"), eval_every=3, **changes
    )
    return [value for record in fitted.records for key, value in record.items() if key in ("loss", "valid/loss")]
