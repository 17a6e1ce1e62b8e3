"""Timing side by side: A B A B in one process, medians, and ratios pair by pair."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from anyorder.data.progress import Progress

__all__ = ["SILENT", "Timing", "interleave", "ratio"]

Subject = Callable[[], object]
SILENT = Progress(show=False)


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Seconds of each round, by the clock and of this process's CPU time."""

    wall: tuple[float, ...]
    cpu: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.wall)

    def summary(self) -> dict[str, float]:
        return {
            "wall_median": median(self.wall),
            "wall_min": min(self.wall),
            "wall_max": max(self.wall),
            "cpu_median": median(self.cpu),
            "rounds": len(self.wall),
        }


def interleave(
    subjects: Mapping[str, Subject],
    *,
    rounds: int,
    warmup: int = 1,
    what: str = "measuring",
    progress: Progress = SILENT,
) -> dict[str, Timing]:
    """Run every subject once a round, in turn, so that a drift of the machine's speed falls on all alike.

    Args:
        subjects: what to time, by name.
        rounds: counted rounds, after ``warmup`` uncounted ones.
        what: is measured, for people.
        progress: a bar of all runs.
    """
    walls: dict[str, list[float]] = {name: [] for name in subjects}
    cpus: dict[str, list[float]] = {name: [] for name in subjects}
    with progress.start(what, (warmup + rounds) * len(subjects)):
        for number in range(warmup + rounds):
            for name, run in subjects.items():
                wall, cpu = _timed(run)
                if number >= warmup:
                    walls[name].append(wall)
                    cpus[name].append(cpu)
                progress.advance(1)
    return {name: Timing(wall=tuple(walls[name]), cpu=tuple(cpus[name])) for name in subjects}


def _timed(run: Subject) -> tuple[float, float]:
    """Wall and CPU seconds of one run, no garbage being collected meanwhile."""
    gc.collect()
    gc.disable()
    try:
        cpu, wall = time.process_time(), time.perf_counter()
        run()
        return time.perf_counter() - wall, time.process_time() - cpu
    finally:
        gc.enable()


def ratio(slow: Timing, fast: Timing) -> float:
    """How many times ``fast`` is as fast as ``slow``: the median of the rounds' own ratios."""
    pairs: Sequence[float] = [a / b for a, b in zip(slow.wall, fast.wall, strict=True)]
    return median(pairs)
