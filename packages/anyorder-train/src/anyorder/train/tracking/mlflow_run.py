"""One run in MLflow, whatever becomes of MLflow meanwhile."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

__all__ = ["MLflowRun", "first_line"]

_PARAMS_A_BATCH, _METRICS_A_BATCH = 100, 1000  # MLflow's own limits
_LONGEST_VALUE, _LONGEST_KEY = 6000, 250
_FLUSH_SECONDS = 5.0


class MLflowRun:
    """One MLflow run. What MLflow cannot take is kept and tried again; a run never fails of it."""

    def __init__(self, client: Any, run_id: str, *, resumed: bool) -> None:
        self.run_id: str | None = run_id
        self._client, self._id = client, run_id
        self._waiting: list[Any] = []
        self._flushed = time.monotonic()
        self._warned = False
        self._noted: dict[str, int] | None = None if resumed else {}

    def params(self, flat: Mapping[str, str]) -> None:
        """Log parameters. MLflow never lets one change: the first value stays, and a warning says so."""
        from mlflow.entities import Param

        run = self._try(partial(self._client.get_run, self._id))
        known = {} if run is None else run.data.params
        new = {key[:_LONGEST_KEY]: value[:_LONGEST_VALUE] for key, value in flat.items()}
        changed = [key for key, value in new.items() if known.get(key, value) != value]
        if changed:
            warnings.warn(
                f"MLflow keeps the first values of parameters that changed: {', '.join(changed)}", stacklevel=5
            )
        params = [Param(key, value) for key, value in new.items() if key not in known]
        for start in range(0, len(params), _PARAMS_A_BATCH):
            part = params[start : start + _PARAMS_A_BATCH]
            self._try(partial(self._client.log_batch, self._id, params=part))

    def metrics(self, values: Mapping[str, float], *, step: int) -> None:
        from mlflow.entities import Metric

        now = round(time.time() * 1000)
        noted = self._last_steps(values)
        self._waiting += [
            Metric(key, float(value), now, step)
            for key, value in values.items()
            if math.isfinite(value) and step > noted.get(key, -1)
        ]
        if time.monotonic() - self._flushed > _FLUSH_SECONDS:
            self.flush()

    def tags(self, values: Mapping[str, str]) -> None:
        from mlflow.entities import RunTag

        self._try(lambda: self._client.log_batch(self._id, tags=[RunTag(k, v) for k, v in values.items()]))

    def artifact(self, path: Path, *, folder: str = "") -> None:
        log = self._client.log_artifacts if path.is_dir() else self._client.log_artifact
        self._try(lambda: log(self._id, str(path), folder or None))

    def flush(self) -> None:
        while self._waiting:
            if not self._try(self._send_metrics):
                break
        self._flushed = time.monotonic()

    def _send_metrics(self) -> bool:
        part = self._waiting[:_METRICS_A_BATCH]
        self._client.log_batch(self._id, metrics=part)
        del self._waiting[: len(part)]
        return True

    def end(self, status: str) -> None:
        """Send what is left and close the run as FINISHED, FAILED or KILLED."""
        self.flush()
        self._try(lambda: self._client.set_terminated(self._id, status))
        if self._waiting:
            warnings.warn(
                f"{len(self._waiting)} metric values never reached MLflow; metrics.jsonl has them all", stacklevel=4
            )

    def _last_steps(self, keys: Mapping[str, float]) -> dict[str, int]:
        """The last step that MLflow has of each metric, asked once, when a run is resumed."""
        if self._noted is None:
            self._noted = {}
            run = self._try(partial(self._client.get_run, self._id))
            for key in run.data.metrics if run is not None else ():
                if not key.startswith("system/"):
                    history = self._try(partial(self._client.get_metric_history, self._id, key)) or []
                    self._noted[key] = max((metric.step for metric in history), default=-1)
        return self._noted

    def _try(self, action: Callable[[], Any]) -> Any:
        """Do something with MLflow; on any failure warn, once, and return None."""
        try:
            return action()
        except Exception as error:
            if not self._warned:
                warnings.warn(f"MLflow did not answer ({first_line(error)}); the run goes on", stacklevel=3)
                self._warned = True
            return None


def first_line(error: Exception) -> str:
    """What an error says, shortly."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
