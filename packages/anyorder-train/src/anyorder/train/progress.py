"""What a run says while it goes: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any, Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["BarProgress", "LineProgress", "RunProgress", "SilentProgress", "console_progress", "format_record"]

Record = Mapping[str, Any]


class RunProgress(Protocol):
    """Told about a run by its trainer."""

    def begin(self, *, steps: int, done: int) -> None:
        """A run of ``steps`` starts, of which ``done`` were made earlier."""
        ...

    def step(self, record: Record) -> None:
        """A step has been made."""
        ...

    def report(self, record: Record) -> None:
        """The step just made is one to show: the first few, then every ``log_every``."""
        ...

    def note(self, text: str) -> None:
        """Something to tell, in one line."""
        ...

    def end(self) -> None: ...


def console_progress(stream: TextIO | None = None) -> RunProgress:
    """A bar where ``stream`` (standard error) is a terminal, plain lines otherwise."""
    stream = sys.stderr if stream is None else stream
    return BarProgress(stream) if stream.isatty() else LineProgress(stream)


def format_record(record: Record, *, steps: int) -> str:
    """One line about a step, such as ``step 20/400  loss 7.9012  lr 0.001  grad 1.21  41.2k tokens/s  targets 340``.

    ``blind`` counts the predictions whose reader saw nothing at all.
    """
    heads = [key for key in record if key.startswith("loss/")]
    shown = [f"step {record['step']}/{steps}", f"loss {record['loss']:.4f}"]
    if len(heads) > 1:
        shown += [f"{key.removeprefix('loss/')} {record[key]:.4f}" for key in heads]
    shown += [
        f"lr {record['lr']:.3g}",
        f"grad {record['grad_norm']:.3g}",
        f"{_thousands(record['tokens_per_second'])} tokens/s",
        f"targets {record['targets']}",
    ]
    if record.get("blind"):
        shown.append(f"blind {record['blind']}")
    if "valid/loss" in record:
        shown.append(f"valid {record['valid/loss']:.4f}")
    return "  ".join(shown)


class SilentProgress:
    """Says nothing."""

    def begin(self, *, steps: int, done: int) -> None: ...

    def step(self, record: Record) -> None: ...

    def report(self, record: Record) -> None: ...

    def note(self, text: str) -> None: ...

    def end(self) -> None: ...


class LineProgress:
    """A line for each reported step, with the time left."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._steps = self._before = 0
        self._started = 0.0

    def begin(self, *, steps: int, done: int) -> None:
        self._steps, self._before, self._started = steps, done, time.monotonic()

    def step(self, record: Record) -> None: ...

    def report(self, record: Record) -> None:
        made = record["step"] - self._before
        left = (time.monotonic() - self._started) / made * (self._steps - record["step"])
        ending = f"  {_duration(left)} left" if left else ""
        self.note(format_record(record, steps=self._steps) + ending)

    def note(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    def end(self) -> None: ...


class BarProgress:
    """A ``rich`` bar with the loss and the time left, below the reported lines."""

    def __init__(self, stream: TextIO | None = None) -> None:
        console = Console(file=sys.stderr if stream is None else stream, highlight=False)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task("training", total=None)
        self._steps = 0

    def begin(self, *, steps: int, done: int) -> None:
        self._steps = steps
        self._bar.reset(self._task, total=steps, completed=done)
        self._bar.start()

    def step(self, record: Record) -> None:
        self._bar.update(self._task, completed=record["step"], description=f"loss {record['loss']:.3f}")

    def report(self, record: Record) -> None:
        self.note(format_record(record, steps=self._steps))

    def note(self, text: str) -> None:
        self._bar.console.print(text, markup=False, soft_wrap=True)

    def end(self) -> None:
        self._bar.stop()


def _thousands(value: float) -> str:
    return f"{value / 1000:.1f}k" if value >= 1000 else f"{value:.0f}"


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{seconds:02d}s" if minutes else f"{seconds}s"
