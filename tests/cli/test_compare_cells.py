"""Cells in processes of their own: a failure stays where it is, a stop loses nothing, runs are nested."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from anyorder.cli.main import main

BRITTLE = '''
import os, signal
from anyorder.losses import CrossEntropy

class Brittle(CrossEntropy):
    """Ends as the file beside this one says."""

    def forward(self, hidden, readout, *, embedding):
        {ending}
        return super().forward(hidden, readout, embedding=embedding)
'''


@pytest.fixture
def brittle(recipes: dict[str, Path]) -> Path:
    """The masked LM with a head of one's own; the others as they are."""
    text = recipes["mlm"].read_text(encoding="utf-8")
    recipes["mlm"].write_text(text.replace("{type: cross_entropy}", "{type: brittle.Brittle}"), encoding="utf-8")
    return recipes["mlm"].with_name("brittle.py")


def cell(folder: Path, name: str) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "cells" / name / "seed-1/cell.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        ("raise RuntimeError('the head fell off')", "mlm, seed 1: RuntimeError: the head fell off"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "mlm, seed 1: its process was killed by SIGKILL"),
    ],
)
@pytest.mark.slow
def test_a_failed_cell_does_not_lose_the_others(
    recipes: dict[str, Path],
    brittle: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    ending: str,
    said: str,
) -> None:
    brittle.write_text(BRITTLE.format(ending=ending), encoding="utf-8")
    folder = tmp_path / "out"
    command = ["compare", str(recipes["plm"]), str(recipes["mlm"]), "--out", str(folder)]
    assert main(command) == 1
    error = capsys.readouterr().err
    assert f"1 of 2 cells failed: {said}" in " ".join(error.split())
    report = (folder / "report.md").read_text(encoding="utf-8")
    assert said in report.partition("## In short")[0]
    assert "| bits per token | plm |" in report
    kept = cell(folder, "plm")

    brittle.write_text(BRITTLE.format(ending="pass"), encoding="utf-8")
    assert main(command) == 0
    assert "| bits per token | plm | mlm |" in (folder / "report.md").read_text(encoding="utf-8")
    assert not (folder / "cells/mlm/seed-1/failure.txt").exists()
    assert cell(folder, "plm") == kept, "what was done was not done again"


SLOW = '''
import time
from pathlib import Path
from anyorder.losses import CrossEntropy

class Slow(CrossEntropy):
    """Takes its time for as long as there is a file of this name."""

    def forward(self, hidden, readout, *, embedding):
        if Path({file!r}).exists():
            time.sleep(0.2)
        return super().forward(hidden, readout, embedding=embedding)
'''


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 143), (signal.SIGKILL, -9)])
@pytest.mark.slow
def test_a_stopped_comparison_goes_on_where_it_was(
    recipes: dict[str, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str], sent: signal.Signals, code: int
) -> None:
    """The cell's process saves a checkpoint and ends, even where the one that started it had no time to say so."""
    folder, steps, slow = tmp_path / "out", 100, tmp_path / "slow"
    recipes["clm"].with_name("slowly.py").write_text(SLOW.format(file=str(slow)), encoding="utf-8")
    text = recipes["clm"].read_text(encoding="utf-8")
    recipes["clm"].write_text(text.replace("{type: cross_entropy}", "{type: slowly.Slow}"), encoding="utf-8")
    slow.touch()
    settings = ["--set", "train.log_every=1000", "--set", f"train.steps={steps}"]
    command = ["compare", str(recipes["clm"]), str(recipes["mlm"]), "--out", str(folder), *settings]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    started = subprocess.Popen([Path(sys.executable).with_name("anyorder"), *command], env=environment)
    run = folder / "cells/clm/seed-1"
    wait_for(lambda: (run / "metrics.jsonl").exists() and len((run / "metrics.jsonl").read_text().splitlines()) > 2)
    started.send_signal(sent)
    assert started.wait(timeout=60) == code
    wait_for(lambda: any((run / "checkpoints").glob("step-*")) and not held(run))
    stopped_at = max(int(path.name.removeprefix("step-")) for path in (run / "checkpoints").glob("step-*"))
    assert 0 < stopped_at < steps
    assert not (folder / "cells/mlm").exists()
    capfd.readouterr()

    slow.unlink()
    recipe = run / "recipe.yaml"
    before = recipe.read_text(encoding="utf-8")
    assert main([*command]) == 0
    assert f"continuing from step {stopped_at}" in capfd.readouterr().err
    assert recipe.read_text(encoding="utf-8") == before
    assert cell(folder, "clm")["steps"] == steps
    assert cell(folder, "mlm")["steps"] == steps


def wait_for(happened: Callable[[], bool], *, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.05)


def held(folder: Path) -> bool:
    """Whether a process owns the run."""
    with (folder / ".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@pytest.mark.slow
def test_cells_are_runs_within_the_comparisons_run(recipes: dict[str, Path], tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    folder = tmp_path / "runs" / "both"
    chosen = [str(recipes["clm"]), str(recipes["mlm"])]
    assert main(["compare", *chosen, "--seeds", "2", "--out", str(folder), "--set", "tracking.type=mlflow"]) == 0
    assert list(tmp_path.rglob("mlflow.db")) == [tmp_path / "runs/mlflow.db"]
    with sqlite3.connect(tmp_path / "runs/mlflow.db") as database:
        runs = dict(database.execute("select name, run_uuid from runs where status = 'FINISHED'"))
        parents = dict(database.execute("select run_uuid, value from tags where key = 'mlflow.parentRunId'"))
        keys = {key for (key,) in database.execute("select distinct key from latest_metrics")}
    cells = ["clm-seed-1", "clm-seed-2", "mlm-seed-1", "mlm-seed-2"]
    assert sorted(runs) == ["both", *cells]
    assert {parents[runs[name]] for name in cells} == {runs["both"]}
    assert {
        "yardstick/cloze/bits_per_token",
        "clm/cloze/bits_per_token",
        "yardstick/span_recovery/5/bits_per_byte",
    } <= keys
    kept = {path.name for path in (tmp_path / "runs/mlflow-artifacts" / runs["both"] / "artifacts").rglob("*")}
    assert {"report.html", "report.md", "comparison.json", "yardsticks.png", "losses.svg"} <= kept


def test_unequal_budgets_are_refused_with_a_table(
    recipes: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = recipes["mlm"].read_text(encoding="utf-8")
    recipes["mlm"].write_text(text.replace("steps: 2", "steps: 3").replace("d_inner: 32", "d_inner: 48"))
    assert main(["compare", str(recipes["plm"]), str(recipes["mlm"]), "--out", str(tmp_path / "out")]) == 2
    table, _, line = capsys.readouterr().err.strip().rpartition("\n")
    rows = {row.split("  ")[0]: row.split()[-2:] for row in table.splitlines()}
    assert rows["tokens in all"] == ["64", "96"]
    assert rows["steps"] == ["2", "3"]
    assert "parameters of the backbone" in rows
    assert "differ in more than their objective: tokens in all (64 in plm; 96 in mlm), and 3 more" in line
    assert "--unequal" in line
    assert not (tmp_path / "out").exists()


def test_a_folder_of_other_recipes_is_left_alone(
    recipes: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "out"
    run = folder / "cells/plm/seed-1"
    run.mkdir(parents=True)
    text = recipes["plm"].read_text(encoding="utf-8").replace("lr: 1e-3", "lr: 5e-3")
    (run / "recipe.yaml").write_text(text, encoding="utf-8")
    assert main(["compare", str(recipes["plm"]), "--out", str(folder)]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "holds a run of another recipe: optimizer.lr (was 0.005, is 0.001)" in error
    assert (run / "recipe.yaml").read_text(encoding="utf-8") == text
