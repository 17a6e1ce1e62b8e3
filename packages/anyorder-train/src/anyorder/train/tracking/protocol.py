"""What a run tells a tracker."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

__all__ = ["TrackedRun", "Tracker", "flatten"]


class TrackedRun(Protocol):
    """One run being tracked. No method raises: what cannot be tracked is warned about, and the run goes on."""

    @property
    def run_id(self) -> str | None:
        """The tracker's own name of the run, to nest others under it."""
        ...

    def metrics(self, values: Mapping[str, float], *, step: int) -> None:
        """Note values of a step. A step that was noted before, by a run that was killed later, is passed over."""
        ...

    def tags(self, values: Mapping[str, str]) -> None: ...

    def artifact(self, path: Path, *, folder: str = "") -> None:
        """Keep a copy of a file, or of all files of a folder, under ``folder`` of the run."""
        ...

    def flush(self) -> None:
        """Send what has been noted so far."""
        ...


class Tracker(Protocol):
    """Where runs are tracked."""

    def run(
        self,
        folder: Path,
        *,
        name: str,
        params: Mapping[str, Any],
        tags: Mapping[str, str] | None = None,
        parent: str | None = None,
        resume: bool = False,
    ) -> AbstractContextManager[TrackedRun]:
        """Track a run for the length of a ``with`` block.

        The run ends as finished, as killed where a ``KeyboardInterrupt`` (or a signal that asks the process to end)
        leaves the block, as failed where another exception does.

        Args:
            folder: the run's folder.
            name: its name for people.
            params: the resolved recipe, nested as it is.
            tags: what else to tell runs apart by.
            parent: ``run_id`` of the run that this one is part of.
            resume: go on with the run that ``folder`` belongs to, where there is one.
        """
        ...


def flatten(values: Any, *, prefix: str = "") -> dict[str, str]:
    """A nested recipe as dotted names: ``objective.order.perm_size: 64``; items of lists by their number."""
    if isinstance(values, Mapping) and values:
        items = list(values.items())
    elif isinstance(values, list | tuple) and any(isinstance(item, Mapping | list | tuple) for item in values):
        items = list(enumerate(values))
    else:
        return {prefix: str(values)} if prefix else {}
    flat: dict[str, str] = {}
    for key, value in items:
        flat |= flatten(value, prefix=f"{prefix}.{key}" if prefix else str(key))
    return flat
