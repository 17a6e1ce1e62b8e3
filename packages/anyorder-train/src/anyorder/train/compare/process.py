"""Starting a cell's process and waiting for it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from types import FrameType

from ..failure import Interrupted, TrainingError
from ..run import keep_recipe
from .cell import Cell, CellResult

__all__ = ["CellFailedError", "run_in_process"]


class CellFailedError(TrainingError):
    """One cell failed; the others are not touched by it."""


def run_in_process(cell: Cell, *, parent: str | None, uri: str | None) -> CellResult:
    """Train and measure a cell in a process of its own.

    SIGINT and SIGTERM are passed on to it, upon which it saves a checkpoint and ends.

    Raises:
        CellFailedError: it failed, or was killed.
        Interrupted: it was asked to stop; the same comparison goes on from there.
    """
    keep_recipe(cell.recipe, cell.folder)
    command = [sys.executable, "-m", "anyorder.train.compare.child", str(cell.folder)]
    command += ["--questions", json.dumps(asdict(cell.questions))]
    command += ["--parent", parent] if parent else []
    command += ["--uri", uri] if uri else []
    # Its standard input stays open for as long as this process lives; a terminal's Ctrl-C comes to it once, from here.
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=2, start_new_session=True)
    with child, _passing_signals_to(child) as received:
        code = child.wait()
    if received or code in (128 + signal.SIGINT, 128 + signal.SIGTERM):
        signum = received[0] if received else code - 128
        raise Interrupted(
            f"stopped by {signal.Signals(signum).name} at {cell.label}; the same command goes on from there",
            signum=signum,
        )
    if code < 0:
        name = signal.Signals(-code).name
        hint = ", as the system does when memory runs out" if -code == signal.SIGKILL else ""
        raise CellFailedError(f"{cell.label}: its process was killed by {name}{hint}")
    result = CellResult.load(cell.folder)
    if code or result is None:
        raise CellFailedError(f"{cell.label}: {_reason(cell)}")
    return result


def _reason(cell: Cell) -> str:
    try:
        first = (cell.folder / "failure.txt").read_text(encoding="utf-8").splitlines()[0]
    except (FileNotFoundError, IndexError):
        return f"its process ended without a word; see {cell.folder}"
    return f"{first} (all of it: {cell.folder / 'failure.txt'})"


@contextmanager
def _passing_signals_to(child: subprocess.Popen[bytes]) -> Iterator[list[int]]:
    """Pass SIGINT and SIGTERM on; gives the list of those received."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def pass_on(signum: int, frame: FrameType | None) -> None:
        received.append(signum)
        child.send_signal(signum)

    before = {signum: signal.signal(signum, pass_on) for signum in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
