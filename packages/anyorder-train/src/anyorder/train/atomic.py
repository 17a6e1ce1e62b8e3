"""Files and folders that are there whole or not at all: write beside, flush to disk, rename."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anyorder.core import CheckpointError

__all__ = ["fsync", "new_folder", "remove_unfinished", "sole_owner", "write_bytes", "write_json", "write_text"]

_UNFINISHED = ".unfinished-"


def fsync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_bytes(path: Path, data: bytes) -> None:
    """Replace a file; a reader, or a crash at any moment, finds the old content or the new."""
    beside = path.with_name(f"{_UNFINISHED}{path.name}-{os.getpid()}")
    try:
        beside.write_bytes(data)
        fsync(beside)
        beside.replace(path)
        fsync(path.parent)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, sort_keys=True) + "\n")


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Give an empty folder to fill, which becomes ``path`` when the block ends and vanishes if it raises.

    Raises:
        FileExistsError: ``path`` exists; a folder cannot be replaced in one move.
    """
    if path.exists():
        raise FileExistsError(f"{path} exists already")
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{_UNFINISHED}{path.name}-{os.getpid()}")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir()
    try:
        yield beside
        for file in sorted(beside.rglob("*")):
            fsync(file)
        fsync(beside)
        beside.rename(path)
        fsync(path.parent)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def remove_unfinished(folder: Path) -> None:
    """Remove what a killed process left half-written in a folder. Only its owner may call this."""
    for path in folder.glob(f"{_UNFINISHED}*"):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


@contextmanager
def sole_owner(folder: Path) -> Iterator[None]:
    """Hold a run folder for this process, making it if need be; the system lets go of it when the process dies.

    Raises:
        CheckpointError: another process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CheckpointError(
                f"{folder} is in use by another process; wait for it to end, or choose another folder"
            ) from None
        yield
