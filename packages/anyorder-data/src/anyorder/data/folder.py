"""Folders that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: no lock, so only one process may prepare a folder at a time
    fcntl = None  # type: ignore[assignment]

_LOCK = "lock"


@contextmanager
def lock(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold an advisory lock on a file; yields whether it was had. The system drops it when the process ends."""
    with path.open("a") as file:
        if fcntl is None:
            yield True
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True


@contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """A temporary sibling of ``target`` that takes its name if the block succeeds, and is removed if it does not.

    Every file is flushed to the disk before the renaming. What earlier, killed processes left beside ``target`` is
    removed; what living ones are writing is not. A folder in the way is replaced.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{target.name}.partial-"
    _sweep(target.parent, prefix)
    work = Path(tempfile.mkdtemp(prefix=prefix, dir=target.parent))
    work.chmod(0o777 & ~_umask())
    try:
        with lock(work / _LOCK):
            yield work
            for file in work.iterdir():
                _sync(file)
            (work / _LOCK).unlink()
            _sync(work)
            if target.exists():
                retired = Path(tempfile.mkdtemp(prefix=prefix, dir=target.parent))
                target.rename(retired / target.name)
                work.rename(target)
                shutil.rmtree(retired)
            else:
                work.rename(target)
            _sync(target.parent)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _sweep(parent: Path, prefix: str) -> None:
    for left in list(parent.iterdir()):
        if not left.name.startswith(prefix) or not (left / _LOCK).exists():
            continue
        with lock(left / _LOCK, wait=False) as had:
            if had:
                shutil.rmtree(left, ignore_errors=True)


def _sync(path: Path) -> None:
    if os.name == "nt" and path.is_dir():
        return  # Windows has no handle on a folder to flush
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
