"""``metrics.jsonl``: one line of JSON a step, appended while the run goes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .atomic import write_text
from .failure import DiskFullError, disk_full

__all__ = ["MetricsLog", "read_metrics"]

Record = Mapping[str, Any]


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The records of a log, in order. A last line that a killed process left unfinished is passed over."""
    if not path.exists():
        return []
    records = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return records


class MetricsLog:
    """Append-only log of a run.

    Args:
        path: the file.
        after: records of later steps are dropped, as they will be written again by a run that continues from there.
    """

    def __init__(self, path: Path, *, after: int) -> None:
        self.path = path
        self.records = [record for record in read_metrics(path) if record["step"] <= after]
        write_text(path, "".join(_line(record) for record in self.records))
        self._file = path.open("a", encoding="utf-8")

    def write(self, record: Record) -> None:
        """Append one record. It outlives the process at once, and a power failure after ``sync``."""
        self.records.append(dict(record))
        with self._full_disk_explained():
            self._file.write(_line(record))
            self._file.flush()

    def sync(self) -> None:
        with self._full_disk_explained():
            os.fsync(self._file.fileno())

    def close(self) -> None:
        with suppress(OSError):  # a line that found no room is still in the buffer
            self._file.close()

    @contextmanager
    def _full_disk_explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not disk_full(error):
                raise
            raise DiskFullError(
                f"{self.path}: the disk is full; checkpoints are intact. Free some space and run again with --resume"
            ) from error


def _line(record: Record) -> str:
    return json.dumps(record) + "\n"
