"""Tracking with MLflow: offline, in an SQLite file beside the runs unless told otherwise."""

from __future__ import annotations

import importlib
import json
import logging
import os
import platform
import subprocess
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from anyorder.core import RecipeError

from ..atomic import write_json
from ..failure import TrainingError
from .mlflow_run import MLflowRun, first_line
from .protocol import flatten

__all__ = ["RUN_FILE", "MLflowTracker", "default_uri"]

RUN_FILE = "mlflow_run.json"
"""Names the MLflow run of a run folder, so that a resumed run goes on with it."""

_SAMPLING_SECONDS = 5.0
_VERSIONS = ("anyorder-train", "torch", "mlflow")


def default_uri(folder: Path) -> str:
    """The SQLite file beside a run folder."""
    return f"sqlite:///{folder.resolve().parent / 'mlflow.db'}"


class MLflowTracker:
    """Runs in MLflow, with parameters, metrics by step, system metrics and artifacts.

    MLflow is imported only when a run starts. Its telemetry is turned off.

    Args:
        uri: where MLflow keeps runs: ``sqlite:///...`` or a server's address. None is ``mlflow.db`` beside the run
            folders, with artifacts in ``mlflow-artifacts``.
        experiment: under what name.
        system_metrics: sample CPU, memory, disk, network and GPUs every few seconds.
    """

    def __init__(self, *, uri: str | None = None, experiment: str = "anyorder", system_metrics: bool = True) -> None:
        self.uri, self.experiment, self.system_metrics = uri, experiment, system_metrics

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
    ) -> Iterator[MLflowRun]:
        """Track a run, as ``Tracker.run`` says.

        Raises:
            RecipeError: MLflow is not installed.
            TrainingError: MLflow does not answer at the start. Once it has, a failure only warns.
        """
        _import_mlflow()
        from mlflow.tracking import MlflowClient

        folder.mkdir(parents=True, exist_ok=True)
        uri = default_uri(folder) if self.uri is None else self.uri
        all_tags = _about() | dict(tags or {}) | ({"mlflow.parentRunId": parent} if parent else {})
        try:
            client = MlflowClient(tracking_uri=uri)
            run_id = self._existing(client, folder) if resume else None
            known = run_id is not None
            if run_id is None:
                experiment = self._experiment_id(client, folder)
                run_id = client.create_run(experiment, run_name=name, tags=all_tags).info.run_id
            else:
                client.update_run(run_id, status="RUNNING")
        except Exception as error:
            raise TrainingError(
                f"MLflow at {uri} cannot be used ({first_line(error)}); mend tracking.uri, or set tracking to none"
            ) from error
        write_json(folder / RUN_FILE, {"run_id": run_id, "tracking_uri": uri, "experiment": self.experiment})
        tracked = MLflowRun(client, run_id, resumed=known)
        monitor, status = None, "FAILED"
        try:
            tracked.params(flatten(params))
            monitor = _start_monitor(run_id, uri, resumed=known) if self.system_metrics else None
            yield tracked
            status = "FINISHED"
        except (KeyboardInterrupt, SystemExit) as stop:
            clean = isinstance(stop, SystemExit) and stop.code in (None, 0)
            status = "FINISHED" if clean else "KILLED" if isinstance(stop, KeyboardInterrupt) else "FAILED"
            raise
        finally:
            if monitor is not None:
                monitor.finish()
            tracked.end(status)

    def _experiment_id(self, client: Any, folder: Path) -> str:
        from mlflow.exceptions import MlflowException

        place = None
        if self.uri is None:
            place = (folder.resolve().parent / "mlflow-artifacts").as_uri()
        for _ in range(2):
            found = client.get_experiment_by_name(self.experiment)
            if found is not None and found.lifecycle_stage == "deleted":
                client.restore_experiment(found.experiment_id)
            if found is not None:
                return str(found.experiment_id)
            try:
                return str(client.create_experiment(self.experiment, artifact_location=place))
            except MlflowException:  # another process was faster: look again
                continue
        raise RuntimeError(f"MLflow has no experiment {self.experiment!r} and will not create it")

    def _existing(self, client: Any, folder: Path) -> str | None:
        """The run that the folder belongs to, if MLflow still has it."""
        from mlflow.exceptions import MlflowException

        try:
            run_id = str(json.loads((folder / RUN_FILE).read_text(encoding="utf-8"))["run_id"])
            client.get_run(run_id)
        except FileNotFoundError:
            return None
        except (MlflowException, ValueError, KeyError) as error:
            warnings.warn(
                f"{folder / RUN_FILE}: MLflow does not know this run ({error}); it gets a new one", stacklevel=4
            )
            return None
        return run_id


def _import_mlflow() -> None:
    """Import MLflow with telemetry off and without its notices about creating its tables."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    for name in ("alembic", "mlflow.store.db.utils", "mlflow.system_metrics.system_metrics_monitor"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        importlib.import_module("mlflow")
    except ImportError as error:
        raise RecipeError(
            f"MLflow cannot be imported ({error}); install it with: pip install 'anyorder-train[mlflow]', "
            "or set tracking to none",
            path="tracking",
        ) from None


def _start_monitor(run_id: str, uri: str, *, resumed: bool) -> Any:
    from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

    try:
        monitor = SystemMetricsMonitor(
            run_id, sampling_interval=_SAMPLING_SECONDS, resume_logging=resumed, tracking_uri=uri
        )
        monitor.start()
    except Exception as error:
        warnings.warn(f"no system metrics: {error}", stacklevel=4)
        return None
    return monitor


def _about() -> dict[str, str]:
    """Versions and, inside a git repository, the commit."""
    tags = {"python": platform.python_version()}
    for name in _VERSIONS:
        try:
            tags[name] = version(name)
        except PackageNotFoundError:
            continue
    try:
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return tags
    return tags | {"mlflow.source.git.commit": commit}
