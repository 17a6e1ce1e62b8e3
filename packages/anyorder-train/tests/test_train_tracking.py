"""Tracking with MLflow, and without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from small_training import CountingText, small_fit, small_objective

from anyorder.core import RecipeError
from anyorder.train.failure import Interrupted
from anyorder.train.progress import SilentProgress
from anyorder.train.tracking import MLflowTracker, NoTracking, flatten
from anyorder.train.tracking.mlflow import RUN_FILE, default_uri

mlflow = pytest.importorskip("mlflow")
PARAMS = {"name": "plm", "objective": {"order": {"type": "permutation", "k": 6}}, "train": {"steps": 6}}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where runs lie, so that one database serves all tests: making its tables takes seconds."""
    return tmp_path_factory.mktemp("runs")


def client(folder: Path):
    return mlflow.MlflowClient(tracking_uri=default_uri(folder))


def stored(folder: Path):
    return client(folder).get_run(json.loads((folder / RUN_FILE).read_text())["run_id"])


def history(folder: Path, key: str) -> list[tuple[int, float]]:
    metrics = client(folder).get_metric_history(stored(folder).info.run_id, key)
    return sorted((metric.step, metric.value) for metric in metrics)


def tracked_fit(folder: Path, *, resume: bool = False, **changes):
    tracker = MLflowTracker(system_metrics=False)
    with tracker.run(folder, name="plm", params=PARAMS, resume=resume) as run:
        return small_fit(folder, tracker=run, resume=resume, **changes)


def test_flatten_names_what_is_nested() -> None:
    assert flatten({"a": {"b": 1, "c": [1, 2], "d": [{"e": None}]}, "f": {}}) == {
        "a.b": "1",
        "a.c": "[1, 2]",
        "a.d.0.e": "None",
        "f": "{}",
    }
    assert flatten({}) == {}


def test_a_run_is_tracked_whole(runs: Path, capfd: pytest.CaptureFixture) -> None:
    folder = runs / "whole"
    result = tracked_fit(folder, objective=small_objective("clm"), valid=CountingText(purpose="held out"))
    assert capfd.readouterr() == ("", "")
    run = stored(folder)
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "plm"
    expected = {"name": "plm", "objective.order.type": "permutation", "objective.order.k": "6", "train.steps": "6"}
    assert run.data.params == expected
    assert run.data.tags["anyorder-train"]
    losses = {record["step"]: record["loss"] for record in result.records}
    assert history(folder, "loss") == [(step, losses[step]) for step in (1, 2, 5, 6)]
    assert history(folder, "valid/loss") == [(6, result.records[-1]["valid/loss"])]
    assert {"lr", "grad_norm", "tokens_per_second", "targets", "blind"} <= run.data.metrics.keys()
    assert Path(run.info.artifact_uri.removeprefix("file://")).is_relative_to(runs / "mlflow-artifacts")
    artifacts = {file.path for file in client(folder).list_artifacts(run.info.run_id)}
    assert artifacts == {"checkpoints", "metrics.jsonl", "plots"}
    plots = {file.path for file in client(folder).list_artifacts(run.info.run_id, "plots")}
    assert plots == {"plots/curves.png", "plots/curves.svg"}


@pytest.mark.usefixtures("draw_nothing")
def test_a_killed_run_is_one_run_when_resumed_and_no_value_comes_twice(runs: Path) -> None:
    class Killer(SilentProgress):
        def step(self, record) -> None:
            if record["step"] == 4:
                os.kill(os.getpid(), 15)

    folder = runs / "killed"
    with pytest.raises(Interrupted):
        tracked_fit(folder, objective=small_objective("clm"), progress=Killer(), log_every=1)
    assert stored(folder).info.status == "KILLED"
    first = stored(folder).info.run_id
    assert [step for step, _ in history(folder, "loss")] == [1, 2, 3, 4, 5]
    with (folder / RUN_FILE).open() as file:
        assert json.load(file)["run_id"] == first
    # As if it had been killed with no time to say so, a step past its last checkpoint.
    client(folder).update_run(first, status="RUNNING")
    client(folder).log_metric(first, "loss", 123.0, step=6)
    result = tracked_fit(folder, resume=True, objective=small_objective("clm"), log_every=1)
    assert stored(folder).info.run_id == first
    assert stored(folder).info.status == "FINISHED"
    values = history(folder, "loss")
    assert [step for step, _ in values] == [1, 2, 3, 4, 5, 6]
    assert values[:5] == [(record["step"], record["loss"]) for record in result.records[:5]]


@pytest.mark.usefixtures("draw_nothing")
def test_a_failed_run_says_so_and_its_child_lies_under_it(runs: Path) -> None:
    tracker = MLflowTracker(system_metrics=False)

    def fail_after_a_child() -> None:
        with tracker.run(runs / "parent", name="parent", params={}) as parent:
            with tracker.run(runs / "child", name="child", params={}, parent=parent.run_id) as child:
                child.tags({"seed": "3"})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_after_a_child()
    assert stored(runs / "parent").info.status == "FAILED"
    assert stored(runs / "child").info.status == "FINISHED"
    tags = stored(runs / "child").data.tags
    assert tags["mlflow.parentRunId"] == stored(runs / "parent").info.run_id
    assert tags["seed"] == "3"


def test_long_and_many_parameters_are_taken_and_changed_ones_are_told(runs: Path) -> None:
    tracker, folder = MLflowTracker(system_metrics=False), runs / "params"
    many = {f"p{i}": "x" * 7000 for i in range(250)}
    with tracker.run(folder, name="a", params=many):
        pass
    assert len(stored(folder).data.params) == 250
    assert set(stored(folder).data.params.values()) == {"x" * 6000}
    again = tracker.run(folder, name="a", params={"p1": "y"}, resume=True)
    with pytest.warns(UserWarning, match="first values of parameters that changed: p1"), again:
        pass


def test_a_run_outlives_mlflow(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = runs / "locked"
    with MLflowTracker(system_metrics=False).run(folder, name="a", params={}) as run:
        send = run._client.log_batch

        def locked(*args, **kwargs):
            raise RuntimeError("database is locked\nand more")

        monkeypatch.setattr(run._client, "log_batch", locked)
        run.metrics({"loss": 1.0}, step=1)
        with pytest.warns(UserWarning, match=r"did not answer \(database is locked\); the run goes on"):
            run.flush()
        run.metrics({"loss": 2.0}, step=2)
        with warnings.catch_warnings():  # told once
            warnings.simplefilter("error")
            run.flush()
        monkeypatch.setattr(run._client, "log_batch", send)
    assert history(folder, "loss") == [(1, 1.0), (2, 2.0)]


def test_a_run_that_mlflow_has_lost_gets_a_new_one_with_all_its_history(runs: Path) -> None:
    folder = runs / "lost"
    tracked_fit(folder, objective=small_objective("clm"))
    values = history(folder, "loss")
    (folder / RUN_FILE).write_text(json.dumps({"run_id": "0" * 32}))
    with pytest.warns(UserWarning, match="does not know this run"):
        tracked_fit(folder, resume=True, objective=small_objective("clm"))
    assert history(folder, "loss") == values


@pytest.mark.slow
def test_system_metrics_are_sampled(runs: Path) -> None:
    import time

    with MLflowTracker().run(runs / "system", name="a", params={}):
        time.sleep(12)
    assert any(key.startswith("system/cpu") for key in stored(runs / "system").data.metrics)


def test_without_mlflow_the_tracker_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    run = MLflowTracker().run(tmp_path, name="a", params={})
    with pytest.raises(RecipeError, match=r"tracking: MLflow cannot be imported.*or set tracking to none"):
        run.__enter__()
    with NoTracking().run(tmp_path, name="a", params={}) as untracked:
        assert untracked.run_id is None


@pytest.mark.slow
def test_a_run_without_tracking_needs_no_mlflow(tmp_path: Path) -> None:
    script = f"""
import sys
sys.modules["mlflow"] = None
sys.path.append({str(Path(__file__).parent)!r})
from pathlib import Path
from small_training import small_fit, Schedule
from anyorder.train.tracking import NoTracking
with NoTracking().run(Path({str(tmp_path)!r}), name="a", params={{}}) as run:
    small_fit(Path({str(tmp_path)!r}), tracker=run, steps=1, schedule=Schedule(warmup=0))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_telemetry_is_off(runs: Path) -> None:
    with MLflowTracker(system_metrics=False).run(runs / "quiet", name="a", params={}):
        assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"
        from mlflow.telemetry.utils import is_telemetry_disabled

        assert is_telemetry_disabled()
