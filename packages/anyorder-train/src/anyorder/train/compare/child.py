"""A cell in a process of its own: ``python -m anyorder.train.compare.child FOLDER``.

Its memory is its own, so that what is measured is not what an earlier cell left, and its death takes no other along.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from anyorder.core import AnyorderError

from ..assemble import assemble, open_text
from ..atomic import write_text
from ..checkpoint import latest, load_model
from ..fit_result import CHECKPOINTS, FitResult
from ..objective import Objective
from ..recipe import Recipe, load_recipe
from ..rows import TextRows
from ..run import RECIPE, choose_tracker, run
from ..tracking import TrackedRun
from ..yardsticks import Measurement, choose_yardsticks, measure_all
from .cell import CELL, CellResult, Questions

__all__ = ["FAILURE", "work"]

FAILURE = "failure.txt"
"""Why a cell failed: its message, then the traceback."""

_CURVE_POINTS = 400
_LIBRARIES = ("anyorder-train", "torch", "numpy", "sentencepiece")


def work(folder: Path, *, questions: Questions, parent: str | None = None, uri: str | None = None) -> CellResult:
    """Train the recipe in a cell's folder, from where it was left, measure it, and write ``cell.json``.

    Args:
        folder: holds the cell's resolved recipe.
        questions: what to ask after training.
        parent: ``run_id`` of the comparison's tracked run.
        uri: where to track, unless the recipe says.
    """
    recipe = load_recipe(folder / RECIPE)
    tracker: Any = choose_tracker(recipe)
    if getattr(tracker, "uri", "") is None:
        tracker.uri = uri
    name, tags = f"{recipe.name}-seed-{recipe.seed}", {"recipe": recipe.name, "seed": str(recipe.seed)}
    with tracker.run(folder, name=name, params=recipe.tree, tags=tags, parent=parent, resume=True) as tracked:
        trained = run(recipe, folder=folder, resume=True, tracker=_Opened(tracked))
        data = open_text(recipe)
        objective = _load(recipe, data, folder)
        measured = measure_all(
            objective,
            questions.windows_of(data),
            piece_bytes=torch.from_numpy(data.corpus.tokenizer.piece_bytes),
            yardsticks=choose_yardsticks(questions.yardsticks),
            seed=questions.seed,
        )
        result = _result(recipe, data, objective, trained, measured, questions)
        result.save(folder)
        tracked.metrics(_metrics(measured), step=trained.step)
        tracked.artifact(folder / CELL)
    return result


class _Opened:
    """A tracker whose run is open already, so that training and measuring are one run."""

    def __init__(self, tracked: TrackedRun) -> None:
        self.tracked = tracked

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
    ) -> Iterator[TrackedRun]:
        yield self.tracked


def _load(recipe: Recipe, data: TextRows, folder: Path) -> Objective:
    """The trained objective on the device it was trained on, in full precision."""
    found = latest(folder / CHECKPOINTS)
    assert found is not None, "training has just saved one"
    device = _device(recipe)
    objective = assemble(recipe, vocab=data.vocab, device=device, training=False)
    load_model(objective, found.model(), source=found.folder)
    return objective.to(device).eval()


def _device(recipe: Recipe) -> torch.device:
    chosen: str = recipe.sections["train"].get("device")
    if chosen == "auto":
        chosen = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(chosen)


def _result(
    recipe: Recipe,
    data: TextRows,
    objective: Objective,
    trained: FitResult,
    measured: Mapping[str, Measurement],
    questions: Questions,
) -> CellResult:
    records = trained.records
    every = max(1, len(records) // _CURVE_POINTS)
    curve = [record for number, record in enumerate(records) if number % every == 0 or number == len(records) - 1]
    return CellResult(
        recipe=recipe.name,
        seed=recipe.seed,
        digest=recipe.digest,
        corpus=data.corpus.manifest.fingerprint[:16],
        questions=questions,
        parameters=sum(parameter.numel() for parameter in objective.parameters()),
        steps=trained.step,
        tokens=trained.tokens,
        targets=sum(record["targets"] for record in records),
        seconds=trained.seconds,
        peak_memory=trained.peak_memory or None,
        device=_device_name(_device(recipe)),
        losses=tuple((record["step"], record["loss"]) for record in curve),
        held_out=tuple((record["step"], record["valid/loss"]) for record in records if "valid/loss" in record),
        measurements=measured,
        versions=_versions(),
    )


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} CPU, {torch.get_num_threads()} threads"


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _metrics(measured: Mapping[str, Measurement]) -> dict[str, float]:
    values = {}
    for name, measurement in measured.items():
        for part, score in measurement.scores.items():
            key = f"yardstick/{name}" + ("" if part == "all" else f"/{part}")
            values[f"{key}/bits_per_token"] = score.bits_per_token
            values[f"{key}/bits_per_byte"] = score.bits_per_byte
    return values


def _stop_with_parent() -> None:
    """Stop, after a checkpoint, when the parent is gone: its end of our standard input then closes."""

    def watch() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def _main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--questions", type=json.loads, required=True)
    parser.add_argument("--parent")
    parser.add_argument("--uri")
    args = parser.parse_args()
    _stop_with_parent()
    warnings.showwarning = lambda message, *_: print(f"warning: {message}", file=sys.stderr)
    (args.folder / FAILURE).unlink(missing_ok=True)
    try:
        work(args.folder, questions=Questions(**args.questions), parent=args.parent, uri=args.uri)
    except KeyboardInterrupt as stop:
        return 128 + int(getattr(stop, "signum", signal.SIGINT))
    except Exception as error:
        text = str(error) if isinstance(error, AnyorderError) else f"{type(error).__name__}: {error}"
        write_text(args.folder / FAILURE, f"{' '.join(text.split())}\n\n{traceback.format_exc()}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main())
