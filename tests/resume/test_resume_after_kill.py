"""A run that is killed, and killed again, ends as if it had never been: to the last bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

from anyorder.train.metrics_log import read_metrics

DRIVER = Path(__file__).with_name("driver.py")
SAME = ("step", "loss", "loss/loss", "lr", "grad_norm", "targets", "tokens", "valid/loss")

pytestmark = pytest.mark.slow


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.Popen(
        [sys.executable, str(DRIVER), str(folder), *options], stdout=subprocess.PIPE, text=True, env=environment
    )


def kill_at(folder: Path, line: str, *options: str, occurrence: int = 1) -> None:
    """Run until a line has been printed so many times, and kill at once."""
    process = start(folder, *options)
    assert process.stdout is not None
    for printed in process.stdout:
        occurrence -= printed.strip() == line
        if occurrence == 0:
            process.kill()
            break
    assert process.wait() == -9, f"the run ended before {line!r}"


def finish(folder: Path) -> None:
    process = start(folder)
    output, _ = process.communicate()
    assert process.returncode == 0
    assert output.endswith("done\n")


def outcome(folder: Path) -> tuple[list[dict], dict[str, bytes]]:
    """All that must not depend on having been killed: the log, and every tensor of the last checkpoint."""
    last = folder / "checkpoints/step-00000024"
    tensors = {
        f"{path.name}/{key}": tensor.numpy().tobytes()
        for path in sorted(last.glob("*.safetensors"))
        for key, tensor in load_file(path).items()
    }
    records = [{key: record[key] for key in SAME if key in record} for record in read_metrics(folder / "metrics.jsonl")]
    return records, tensors


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict], dict[str, bytes]]:
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    finish(folder)
    records, tensors = outcome(folder)
    assert [record["step"] for record in records] == list(range(1, 25))
    assert {name.split("/")[0] for name in tensors} == {
        "memory.safetensors",
        "model.safetensors",
        "optimizer.safetensors",
    }
    return records, tensors


def test_killed_between_checkpoints(tmp_path: Path, undisturbed) -> None:
    folder = tmp_path / "run"
    kill_at(folder, "step 3")  # before the first checkpoint
    kill_at(folder, "step 8")
    kill_at(folder, "step 14")
    kill_at(folder, "step 15")  # at or just before a checkpoint
    finish(folder)
    assert outcome(folder) == undisturbed


@pytest.mark.parametrize(
    ("line", "occurrence"),
    [
        ("writing model.safetensors", 2),  # while files of the second checkpoint are flushed
        ("writing state.json", 2),
        ("writing .unfinished-step-00000010", 1),
        ("writing checkpoints", 1),  # after the rename
    ],
)
def test_killed_inside_a_checkpoint(tmp_path: Path, undisturbed, line: str, occurrence: int) -> None:
    folder = tmp_path / "run"
    kill_at(folder, line, "--slow-write", occurrence=occurrence)
    whole = {path.name for path in (folder / "checkpoints").glob("step-*")}
    assert whole, "the checkpoint before must have survived"
    kill_at(folder, "step 17")
    finish(folder)
    assert outcome(folder) == undisturbed
    assert not list((folder / "checkpoints").glob(".unfinished*"))


def test_killed_while_the_log_is_cut_back(tmp_path: Path, undisturbed) -> None:
    folder = tmp_path / "run"
    kill_at(folder, "step 8")
    with (folder / "metrics.jsonl").open("a") as log:
        log.write('{"step": 9, "los')  # a line cut short by a power failure
    process = start(folder, "--slow-write")
    assert process.stdout is not None
    for printed in process.stdout:
        if printed.strip() == "writing .unfinished-metrics.jsonl":
            process.kill()
            break
    process.wait()
    finish(folder)
    assert outcome(folder) == undisturbed
