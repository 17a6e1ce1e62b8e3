"""A benchmark's result as a run in MLflow, beside the training runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..tracking.mlflow import MLflowTracker

__all__ = ["track"]

EXPERIMENT = "benchmarks"


def track(result: Mapping[str, Any], files: list[Path], *, name: str, folder: Path, uri: str | None = None) -> None:
    """Log settings and machine as parameters, every figure as a metric, and the files as artifacts.

    Args:
        result: of a benchmark.
        files: what ``save`` wrote.
        name: of the run.
        folder: holds ``mlflow.db`` unless ``uri`` names another place.
        uri: MLflow's address.
    """
    tracker = MLflowTracker(uri=uri, experiment=EXPERIMENT, system_metrics=False)
    params = {key: result[key] for key in ("bench", "settings", "where") if key in result}
    with tracker.run(folder / f"bench-{name}", name=name, params=params) as run:
        run.metrics(dict(_figures(result)), step=0)
        for path in files:
            run.artifact(path)


def _figures(result: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    for key, value in result.items():
        name = f"{prefix}/{key}" if prefix else key
        if name in ("bench", "settings", "where"):
            continue
        if isinstance(value, Mapping):
            yield from _figures(value, name)
        elif isinstance(value, int | float):
            yield re.sub(r"[^\w\-. :/]", "", name), float(value)
