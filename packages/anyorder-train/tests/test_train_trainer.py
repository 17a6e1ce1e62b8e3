"""The training loop: against a naive twin, over slices, and when something goes wrong."""

from __future__ import annotations

import math
import os
import signal
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from small_training import CountingText, small_fit, small_objective

from anyorder.core import CheckpointError, DataError, LossOutput, RecipeError
from anyorder.train.checkpoint import Checkpoint
from anyorder.train.failure import Interrupted, NonFiniteError
from anyorder.train.loop import seed_dropout
from anyorder.train.optimizer import AdamW
from anyorder.train.progress import SilentProgress
from anyorder.train.schedule import Schedule
from anyorder.train.trainer import Trainer

pytestmark = pytest.mark.usefixtures("draw_nothing")


def weights(folder: Path, step: int) -> dict[str, torch.Tensor]:
    return Checkpoint.open(folder / "checkpoints" / f"step-{step:08d}").model()


def losses(result) -> list[float]:
    return [record["loss"] for record in result.records]


@pytest.mark.parametrize("kind", ["plm", "mlm", "clm"])
def test_a_run_equals_the_loop_written_out_by_hand(tmp_path: Path, kind: str) -> None:
    result = small_fit(tmp_path / "run", objective=small_objective(kind, dropout=0.1), clip=0.5)

    objective, data = small_objective(kind, dropout=0.1), CountingText()
    optimizer = AdamW(lr=3e-3).build(objective)
    memory = objective.empty_memory(4)
    expected = []
    for step in range(6):
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * ([1 / 2, 1, 3 / 4, 2 / 4, 1 / 4, 0][step])
        seed_dropout(7, step, rank=0)
        batch = data.batch(step)
        streams = objective.prepare(batch, seed=7, step=step)
        output = objective(streams, memory.drop(batch.fresh))
        memory = output.memory
        loss = output.losses["loss"].loss_sum / streams.readouts["loss"].weight.sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(objective.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        expected.append(loss.item())

    assert losses(result) == pytest.approx(expected, rel=1e-6)
    for name, tensor in weights(tmp_path / "run", 6).items():
        torch.testing.assert_close(tensor, objective.state_dict()[name])


def test_the_loss_falls_on_text_that_can_be_learnt(tmp_path: Path) -> None:
    result = small_fit(tmp_path, objective=small_objective("clm"), steps=60, optimizer=AdamW(lr=1e-2))
    assert sum(losses(result)[-5:]) < 0.7 * sum(losses(result)[:5])


@pytest.mark.parametrize("kind", ["plm", "clm"])
def test_slices_of_rows_change_nothing(tmp_path: Path, kind: str) -> None:
    runs = {
        k: small_fit(tmp_path / str(k), objective=small_objective(kind), accumulate=k, steps=8, checkpoint_every=8)
        for k in (1, 2, 4)
    }
    whole = Checkpoint.open(runs[1].checkpoint)
    for k in (2, 4):
        sliced = Checkpoint.open(runs[k].checkpoint)
        torch.testing.assert_close(losses(runs[k]), losses(runs[1]), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(sliced.model(), whole.model(), rtol=1e-4, atol=1e-5)
        for ours, theirs in zip(sliced.memory().layers, whole.memory().layers, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
        assert torch.equal(sliced.memory().doc, whole.memory().doc)


def test_slices_differ_where_a_mean_of_means_would_be_taken(tmp_path: Path) -> None:
    # Rows with unequal numbers of targets tell "divide once by all weight" from "average the slices' means".
    @dataclass(frozen=True)
    class Ragged(CountingText):
        def batch(self, step: int):
            batch = super().batch(step)
            doc = batch.doc.clone()
            doc[2:, 3:] = -1
            return replace(batch, doc=doc, fixed=batch.fixed | (doc < 0))

    runs = [small_fit(tmp_path / str(k), objective=small_objective("clm"), data=Ragged(), accumulate=k) for k in (1, 2)]
    assert losses(runs[1]) == pytest.approx(losses(runs[0]), rel=1e-5)
    a, b = (Checkpoint.open(run.checkpoint).model() for run in runs)
    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_records_follow_the_documented_rates_and_counts(tmp_path: Path) -> None:
    result = small_fit(tmp_path, objective=small_objective("clm"), valid=CountingText(purpose="held out"), eval_every=4)
    assert [record["step"] for record in result.records] == [1, 2, 3, 4, 5, 6]
    assert [record["lr"] for record in result.records] == pytest.approx(
        [3e-3 * f for f in (0.5, 1, 0.75, 0.5, 0.25, 0)]
    )
    assert {record["tokens"] for record in result.records} == {48}
    assert {record["targets"] for record in result.records} == {44}
    assert [record["step"] for record in result.records if "valid/loss" in record] == [4, 6]
    assert result.tokens == 6 * 48
    assert result.tokens_per_second == pytest.approx(6 * 48 / result.seconds)
    assert result.peak_memory > 1e6


def test_predictions_of_readers_that_see_nothing_are_counted(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Lonely(CountingText):
        def batch(self, step: int):  # a document a token: a query sees nothing but its like in memory
            batch = super().batch(step)
            return replace(batch, doc=torch.arange(1, self.length + 1).repeat(self.rows, 1))

    result = small_fit(tmp_path, data=Lonely())
    shown = {record["step"]: record["blind"] for record in result.records if "blind" in record}
    assert shown == {1: 8, 2: 0, 5: 0, 6: 8}  # rows start anew, without memory, at the first and the sixth step


class Poisoned(torch.nn.Module):
    """A head whose loss, or whose gradient alone, is not finite from the fourth call on."""

    def __init__(self, head, *, gradient: bool) -> None:
        super().__init__()
        self.head, self.gradient, self.calls = head, gradient, 0

    def readout(self, batch, streams):
        return self.head.readout(batch, streams)

    def forward(self, hidden, readout, *, embedding) -> LossOutput:
        self.calls += 1
        if self.calls >= 4:
            poison = torch.sqrt(hidden.sum() * 0) if self.gradient else torch.tensor(math.nan)
            hidden = hidden + poison
        return self.head(hidden, readout, embedding=embedding)


@pytest.mark.parametrize("gradient", [False, True])
def test_a_loss_or_gradient_that_is_not_finite_stops_the_run_and_spares_the_weights(tmp_path, gradient) -> None:
    objective = small_objective()
    objective.heads["loss"] = Poisoned(objective.heads["loss"], gradient=gradient)
    wrong = "gradient is not finite" if gradient else "loss/loss is nan"
    with pytest.raises(NonFiniteError, match=rf"step 4: .*{wrong}.*step-00000003.*Try a smaller optimizer.lr"):
        small_fit(tmp_path, objective=objective)
    saved = weights(tmp_path, 3)
    for name, tensor in objective.state_dict().items():
        assert torch.equal(tensor, saved[name])
    assert not (tmp_path / "checkpoints/step-00000006").exists()


def test_a_folder_with_a_run_in_it_is_not_touched(tmp_path: Path) -> None:
    small_fit(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(CheckpointError, match=r"holds a run already.*--resume.*another folder"):
        small_fit(tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_two_runs_cannot_share_a_folder(tmp_path: Path) -> None:
    class Intruding(SilentProgress):
        def step(self, record) -> None:
            with pytest.raises(CheckpointError, match="in use by another process"):
                small_fit(tmp_path, resume=True)

    small_fit(tmp_path, steps=1, schedule=Schedule(warmup=0), progress=Intruding())


def test_generators_of_the_caller_are_left_alone(tmp_path: Path) -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    objective = small_objective()
    torch.set_rng_state(before)
    small_fit(tmp_path, objective=objective)
    assert torch.equal(torch.get_rng_state(), before)


def test_bf16_keeps_weights_and_memory_in_fp32_and_stays_near(tmp_path: Path) -> None:
    runs = {p: small_fit(tmp_path / p, objective=small_objective("clm"), precision=p) for p in ("fp32", "bf16")}
    assert losses(runs["bf16"]) != losses(runs["fp32"])
    assert losses(runs["bf16"]) == pytest.approx(losses(runs["fp32"]), rel=0.02)
    found = Checkpoint.open(runs["bf16"].checkpoint)
    assert {tensor.dtype for tensor in (*found.model().values(), *found.memory().layers)} == {torch.float32}


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_between_steps_with_a_checkpoint_to_go_on_from(tmp_path: Path, signum: int) -> None:
    class Killer(SilentProgress):
        def step(self, record) -> None:
            if record["step"] == 3:
                os.kill(os.getpid(), signum)

    whole = small_fit(tmp_path / "whole", objective=small_objective(dropout=0.1), checkpoint_every=100)
    handler = signal.getsignal(signum)
    with pytest.raises(Interrupted, match="after step 4 of 6; go on with --resume") as stopped:
        small_fit(tmp_path / "run", objective=small_objective(dropout=0.1), checkpoint_every=100, progress=Killer())
    assert stopped.value.signum == signum
    assert signal.getsignal(signum) is handler
    resumed = small_fit(tmp_path / "run", objective=small_objective(dropout=0.1), checkpoint_every=100, resume=True)
    assert losses(resumed) == losses(whole)
    after, expected = weights(tmp_path / "run", 6), weights(tmp_path / "whole", 6)
    assert all(torch.equal(after[name], expected[name]) for name in expected)


def test_resuming_a_finished_run_changes_nothing(tmp_path: Path) -> None:
    first = small_fit(tmp_path)
    again = small_fit(tmp_path, resume=True)
    assert again.records == first.records
    assert again.checkpoint == first.checkpoint
    assert again.tokens == first.tokens


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fingerprint": "b"}, "another recipe"),
        ({"seed": 8}, "another seed"),
        ({"objective": "wide"}, "another model: .*heads.loss.bias"),
        ({"batch_size": 2}, "remembers 4 rows of 2 layers; this run has 2 of 2"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path, change: dict, message: str) -> None:
    small_fit(tmp_path, fingerprint="a")
    if change.get("objective") == "wide":
        objective = small_objective()
        objective.heads["loss"].bias = torch.nn.Parameter(torch.zeros(41))
        change = {"objective": objective}
    with pytest.raises(CheckpointError, match=message):
        small_fit(tmp_path, **({"fingerprint": "a", "resume": True, "steps": 8} | change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 0}, "train.steps: steps is 0; it must be 1 or more"),
        ({"precision": "fp8"}, "train.precision: .*'fp32' and 'bf16'"),
        ({"clip": 0.0}, "train.clip: .*above 0"),
        ({"batch_size": 4, "accumulate": 3}, "train.batch_size: .*multiple of 3"),
        ({"schedule": Schedule(warmup=7)}, "schedule.warmup: .*the run has 6"),
    ],
)
def test_settings_out_of_range_are_named(tmp_path: Path, change: dict, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        small_fit(tmp_path, **change)


def test_data_with_too_few_rows_or_foreign_tokens_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="give 4 rows a step and row 8"):
        small_fit(tmp_path / "a", batch_size=8)

    @dataclass(frozen=True)
    class Foreign(CountingText):
        def batch(self, step: int):
            batch = super().batch(step)
            return replace(batch, ids=batch.ids + 20)

    with pytest.raises(DataError, match="outside the vocabulary"):
        small_fit(tmp_path / "b", data=Foreign())


def test_the_first_steps_are_shown_and_then_every_log_every() -> None:
    trainer = Trainer(steps=175, batch_size=1, log_every=60)
    assert [step for step in range(1, 176) if trainer.shows(step)] == [1, 2, 5, 10, 20, 50, 60, 120, 175]
