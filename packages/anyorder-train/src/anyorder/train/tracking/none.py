"""No tracking: the run folder's own files are all there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["NoTracking", "UntrackedRun"]


class UntrackedRun:
    """A run that nobody tracks."""

    run_id: str | None = None

    def metrics(self, values: Mapping[str, float], *, step: int) -> None: ...

    def tags(self, values: Mapping[str, str]) -> None: ...

    def artifact(self, path: Path, *, folder: str = "") -> None: ...

    def flush(self) -> None: ...


class NoTracking:
    """Track nothing."""

    @contextmanager
    def run(
        self,
        folder: Path,
        *,
        name: str,
        params: Mapping[str, Any],
        tags: Mapping[str, str] | None = None,
        parent: str | None = None,
        resume: bool = False,
    ) -> Iterator[UntrackedRun]:
        yield UntrackedRun()
