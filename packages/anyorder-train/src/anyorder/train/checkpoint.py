"""Checkpoints: safetensors and JSON in a folder that is there whole or not at all. Nothing is pickled."""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from anyorder.core import CheckpointError, MemoryState

from .atomic import new_folder, remove_unfinished, write_json
from .failure import DiskFullError, disk_full
from .state_tensors import (
    load_model,
    load_optimizer,
    memory_of,
    memory_tensors,
    optimizer_tensors,
    read_tensors,
    write_tensors,
)

__all__ = ["FORMAT", "Checkpoint", "checkpoints", "latest", "load_model", "save"]

FORMAT = 1
"""Version of the layout. A reader refuses a later one."""

_MODEL, _OPTIMIZER, _MEMORY, STATE = (
    "model.safetensors",
    "optimizer.safetensors",
    "memory.safetensors",
    "state.json",
)


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A verified checkpoint folder: every file, ``state.json`` too, has the SHA-256 that ``state.json`` names."""

    folder: Path
    step: int
    state: Mapping[str, Any]

    @classmethod
    def open(cls, folder: Path) -> Checkpoint:
        """Read ``state.json`` and verify every file.

        Raises:
            CheckpointError: a file is missing, truncated, altered or of a later format.
        """
        path = folder / STATE
        try:
            state = json.loads(path.read_bytes())
            step, files = int(state["step"]), dict(state["files"])
        except FileNotFoundError:
            raise CheckpointError(f"{path} is missing: {folder} is not a checkpoint, or was cut short") from None
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{path} is damaged ({error}); use an earlier checkpoint") from None
        if state.get("format") != FORMAT:
            raise CheckpointError(
                f"{path} has format {state.get('format')!r} and this version reads {FORMAT}; "
                "use the version of anyorder that wrote it"
            )
        if state.get("sha256") != _digest(state):
            raise CheckpointError(f"{path} has been altered: its SHA-256 is not the one noted when it was written")
        for name, expected in files.items():
            _verify(folder / name, expected)
        return cls(folder=folder, step=step, state=state)

    def model(self) -> dict[str, Tensor]:
        return read_tensors(self.folder / _MODEL)

    def restore(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Put weights and optimiser state back in place.

        Raises:
            CheckpointError: the checkpoint is of another model.
        """
        load_model(model, self.model(), source=self.folder / _MODEL)
        path = self.folder / _OPTIMIZER
        load_optimizer(model, optimizer, read_tensors(path), source=path)

    def memory(self) -> MemoryState | None:
        """The memory of all rows, on the CPU; None where the run has none."""
        if _MEMORY not in self.state["files"]:
            return None
        return memory_of(read_tensors(self.folder / _MEMORY), contiguous=bool(self.state["memory_contiguous"]))


def save(
    root: Path,
    *,
    step: int,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    memory: MemoryState | None,
    state: Mapping[str, Any],
    keep: int,
) -> Path:
    """Write ``root/step-00000200`` and, once it is complete, remove all but the newest ``keep``.

    Args:
        state: what else to remember, as JSON values.

    Raises:
        DiskFullError: no space was left. Earlier checkpoints are intact, the unfinished one is removed.
    """
    folder = root / f"step-{step:08d}"
    try:
        with new_folder(folder) as new:
            write_tensors(new / _MODEL, model.state_dict())
            write_tensors(new / _OPTIMIZER, optimizer_tensors(model, optimizer))
            if memory is not None:
                write_tensors(new / _MEMORY, memory_tensors(memory))
            files = {file.name: _fingerprint(file) for file in sorted(new.iterdir())}
            record = dict(state) | {
                "format": FORMAT,
                "step": step,
                "files": files,
                "memory_contiguous": None if memory is None else memory.contiguous,
            }
            write_json(new / STATE, record | {"sha256": _digest(record)})
    except (OSError, SafetensorError) as error:
        if not disk_full(error):
            raise
        raise DiskFullError(
            f"{folder}: the disk is full, so the checkpoint of step {step} could not be written; earlier "
            "checkpoints are intact. Free some space and run again with --resume"
        ) from error
    for old in checkpoints(root)[:-keep]:
        shutil.rmtree(old)
    return folder


def checkpoints(root: Path) -> list[Path]:
    """Checkpoint folders under ``root``, oldest first, unverified."""
    return sorted(path for path in root.glob("step-*") if path.is_dir())


def latest(root: Path) -> Checkpoint | None:
    """The newest checkpoint that is whole, or None where there are none at all.

    A damaged one is passed over with a warning that says so, and an earlier one is used.

    Raises:
        CheckpointError: there are checkpoints, and none is whole.
    """
    problems: list[CheckpointError] = []
    for folder in reversed(checkpoints(root)):
        try:
            found = Checkpoint.open(folder)
        except CheckpointError as error:
            problems.append(error)
            continue
        for problem in problems:
            warnings.warn(f"{problem}. Continuing from step {found.step} instead", stacklevel=2)
        return found
    if problems:
        others = f" (and {len(problems) - 1} earlier ones are damaged too)" if len(problems) > 1 else ""
        raise CheckpointError(
            f"{problems[0]}{others}; no whole checkpoint is left in {root}: restore one from a copy, "
            "or start anew in another folder"
        )
    return None


def tidy(root: Path, *, after: int) -> None:
    """Make way for a run that continues from step ``after``: unfinished folders go, damaged later ones are set aside.

    A later checkpoint is there only if it is damaged. It is renamed, not removed: it may still be worth something.
    """
    remove_unfinished(root)
    for folder in checkpoints(root):
        if int(folder.name.removeprefix("step-")) > after:
            aside = folder.with_name(f"damaged-{folder.name}")
            if aside.exists():
                shutil.rmtree(aside)
            folder.rename(aside)


def _digest(record: Mapping[str, Any]) -> str:
    """SHA-256 of a record's content, but for its own ``sha256``."""
    content = {key: value for key, value in record.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _fingerprint(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"size": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _verify(path: Path, expected: Mapping[str, Any]) -> None:
    if not path.is_file():
        raise CheckpointError(f"{path} is missing")
    size = path.stat().st_size
    if size < expected["size"]:
        raise CheckpointError(f"{path} is truncated: {size} bytes of {expected['size']}")
    if _fingerprint(path) != dict(expected):
        raise CheckpointError(f"{path} has been altered: its SHA-256 is not the one noted when it was written")
