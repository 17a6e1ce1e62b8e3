"""Checkpoints: whole or not at all, verified, and never the only one lost."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from small_training import small_fit, small_objective

from anyorder.core import CheckpointError
from anyorder.train import checkpoint
from anyorder.train.checkpoint import Checkpoint, latest
from anyorder.train.failure import DiskFullError
from anyorder.train.optimizer import AdamW
from anyorder.train.state_tensors import optimizer_tensors, read_tensors

pytestmark = pytest.mark.usefixtures("draw_nothing")
FILES = ["memory.safetensors", "model.safetensors", "optimizer.safetensors", "state.json"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    small_fit(folder)
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def test_a_checkpoint_holds_all_that_a_run_is(run: Path) -> None:
    folder = run / "checkpoints/step-00000006"
    assert sorted(path.name for path in folder.iterdir()) == FILES
    found = Checkpoint.open(folder)
    assert found.step == 6
    assert found.state["seed"] == 7
    assert set(found.state["files"]) == set(FILES[:-1])
    objective = small_objective(seed=2)
    optimizer = AdamW().build(objective)
    found.restore(objective, optimizer)
    stored = found.model()
    for name, tensor in objective.state_dict().items():
        assert torch.equal(tensor, stored[name])
    state = optimizer.state_dict()["state"]
    assert {int(slots["step"]) for slots in state.values()} == {6}
    again = optimizer_tensors(objective, optimizer)
    saved = read_tensors(folder / "optimizer.safetensors")
    assert again.keys() == saved.keys()
    assert all(torch.equal(again[key], saved[key]) for key in saved)


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    small_fit(tmp_path, checkpoint_every=1, keep=3)
    names = [path.name for path in checkpoint.checkpoints(tmp_path / "checkpoints")]
    assert names == ["step-00000004", "step-00000005", "step-00000006"]


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def _alter(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(("harm", "word"), [(_truncate, "truncated"), (_alter, "altered"), (Path.unlink, "missing")])
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(run: Path, name: str, harm, word: str) -> None:
    harm(run / "checkpoints/step-00000006" / name)
    if name == "state.json" and harm is not Path.unlink:
        word = "damaged|altered"
    with pytest.raises(CheckpointError, match=rf"step-00000006/{name}.*({word})"):
        Checkpoint.open(run / "checkpoints/step-00000006")
    with pytest.warns(UserWarning, match=rf"{name}.*Continuing from step 3 instead"):
        found = latest(run / "checkpoints")
    assert found is not None
    assert found.step == 3


def test_without_any_whole_checkpoint_nothing_is_resumed_and_nothing_removed(run: Path) -> None:
    for folder in (run / "checkpoints").iterdir():
        _truncate(folder / "model.safetensors")
    before = sorted(run.rglob("*"))
    with pytest.raises(CheckpointError, match="no whole checkpoint is left"):
        small_fit(run, resume=True)
    assert sorted(run.rglob("*")) == before


def test_a_run_goes_on_from_the_one_before_a_damaged_one_and_sets_that_aside(run: Path, finished: Path) -> None:
    _alter(run / "checkpoints/step-00000006/model.safetensors")
    with pytest.warns(UserWarning, match="Continuing from step 3"):
        small_fit(run, resume=True)
    assert (run / "checkpoints/damaged-step-00000006").is_dir()
    ours, theirs = (Checkpoint.open(folder / "checkpoints/step-00000006").model() for folder in (run, finished))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_a_changed_value_in_the_state_is_noticed(run: Path) -> None:
    path = run / "checkpoints/step-00000006/state.json"
    path.write_text(path.read_text().replace('"seed": 7', '"seed": 8'))
    with pytest.raises(CheckpointError, match=r"state.json has been altered"):
        Checkpoint.open(path.parent)


def test_a_later_format_is_refused(run: Path) -> None:
    path = run / "checkpoints/step-00000006/state.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))
    with pytest.raises(CheckpointError, match="format 99 and this version reads 1"):
        Checkpoint.open(path.parent)


@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, "No space left on device"), SafetensorError("I/O error: No space left (os error 28)")],
)
def test_a_full_disk_leaves_the_checkpoint_before_and_no_rubbish(tmp_path: Path, monkeypatch, error) -> None:
    write, calls = checkpoint.write_tensors, []

    def fail(path, tensors) -> None:
        calls.append(path)
        if len(calls) > 4:  # the second file of the second checkpoint
            path.write_bytes(b"half")
            raise error
        write(path, tensors)

    monkeypatch.setattr(checkpoint, "write_tensors", fail)
    with pytest.raises(DiskFullError, match=r"step 6 could not be written.*--resume"):
        small_fit(tmp_path)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-00000003"]
    monkeypatch.undo()
    assert small_fit(tmp_path, resume=True).step == 6


_ON_A_SMALL_DISK = """
import sys
sys.path.append({tests!r})
from pathlib import Path
from small_training import small_fit
from anyorder.train.failure import DiskFullError
disk = Path({disk!r})
try:
    small_fit(disk / "run", checkpoint_every=1, keep=100, steps=100)
except DiskFullError as error:
    print(error)
left = sorted(path.name for path in (disk / "run/checkpoints").iterdir())
assert all(name.startswith("step-") for name in left), left
from anyorder.train.checkpoint import latest
print("whole:", latest(disk / "run/checkpoints").folder.name == left[-1], len(left))
"""


@pytest.mark.slow
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=1m tmpfs {disk}"
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "sh", "-c", mount], check=False).returncode:
        pytest.skip("no file system can be mounted here")
    script = tmp_path / "script.py"
    script.write_text(_ON_A_SMALL_DISK.format(tests=str(Path(__file__).parent), disk=str(disk)))
    command = f"{mount} && exec {sys.executable} {script}"
    done = subprocess.run(["unshare", "-rm", "sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "the disk is full" in done.stdout
    assert "whole: True" in done.stdout
