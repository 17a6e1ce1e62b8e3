"""How far a long job is: a bar on a terminal, plain lines elsewhere, nothing if so wished."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self

_EVERY = 5.0  # seconds between plain lines


class Progress:
    """One bar at a time, on standard error.

    Args:
        show: False for silence, messages included.
    """

    def __init__(self, *, show: bool = True) -> None:
        self._show = show
        self._bar: Any = None
        self._task: Any = None
        self._what, self._total, self._done, self._last = "", 0, 0, 0.0

    def say(self, message: str) -> None:
        if self._show:
            print(message, file=sys.stderr, flush=True)

    def start(self, what: str, total: int) -> Self:
        """Begin a job of ``total`` units; use as a context manager."""
        self._what, self._total, self._done, self._last = what, max(total, 1), 0, time.monotonic()
        return self

    def __enter__(self) -> Self:
        if self._show and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task(self._what, total=self._total)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def advance(self, amount: int) -> None:
        self._done += amount
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done)
        elif self._show and time.monotonic() - self._last >= _EVERY:
            self._last = time.monotonic()
            self.say(f"{self._what}: {min(100, 100 * self._done // self._total)} %")
