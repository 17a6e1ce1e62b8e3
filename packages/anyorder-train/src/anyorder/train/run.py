"""A whole run, from a recipe to a folder of results: what ``anyorder train`` does, to be read from top to bottom."""

from __future__ import annotations

import importlib.util
import json
import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path

import torch

from anyorder.core import CheckpointError

from .assemble import assemble, open_text
from .atomic import write_text
from .checkpoint import STATE, checkpoints, latest
from .distributed import Team
from .fit_result import CHECKPOINTS, FitResult
from .initial import load_initial
from .objective import Objective
from .progress import RunProgress
from .recipe import Recipe, load_recipe
from .rows import TextRows
from .state_tensors import load_model
from .tracking import NoTracking, Tracker, flatten
from .trainer import Trainer, require_unused

__all__ = ["RECIPE", "load_run", "run"]

RECIPE = "recipe.yaml"
"""The resolved recipe in a run's folder."""


def run(
    recipe: Recipe,
    *,
    folder: Path,
    resume: bool = False,
    progress: RunProgress | None = None,
    tracker: Tracker | None = None,
    parent: str | None = None,
    tags: Mapping[str, str] | None = None,
) -> FitResult:
    """Train what a recipe describes.

    Args:
        recipe: the run.
        folder: where its recipe, log, checkpoints and curves go.
        resume: go on from the newest checkpoint in ``folder``, bit for bit; from the start if there is none.
        progress: what to say meanwhile; a bar or plain lines on standard error by default.
        tracker: in place of the recipe's own.
        parent: ``run_id`` of the tracked run that this one is part of.
        tags: what else to tell tracked runs apart by.

    Raises:
        AnyorderError: what the user can mend, before anything is computed.
        TrainingError: the run failed while it ran.
        Interrupted: a signal stopped it after a checkpoint.
    """
    trainer: Trainer = recipe.sections["train"].build()
    team = Team.join(trainer.device)
    if resume:
        require_same(recipe, folder)
    else:
        require_unused(folder)
    if (folder / "comparison.json").exists():
        raise CheckpointError(f"{folder} holds a comparison, whose runs are in its folder cells; choose another folder")

    data = open_text(recipe)
    fingerprint = f"{recipe.digest}-{data.corpus.manifest.fingerprint[:16]}"
    if resume:
        require_same_text(folder, fingerprint)
    torch.manual_seed(recipe.seed)
    objective = assemble(
        recipe,
        vocab=data.vocab,
        device=team.device,
        dtype=torch.bfloat16 if trainer.precision == "bf16" else torch.float32,
        compiled=trainer.compile,
        deterministic=trainer.deterministic,
    )
    start, moments = recipe.sections["model"].init_from, None
    if start is not None and not (resume and checkpoints(folder / CHECKPOINTS)):
        moments = load_initial(objective, start, tokenizer=data.corpus.tokenizer)
    objective = objective.to(team.device)

    if team.first:
        keep_recipe(recipe, folder)
    tracker = tracker or (choose_tracker(recipe) if team.first else NoTracking())
    with tracker.run(folder, name=recipe.name, params=recipe.tree, tags=tags, parent=parent, resume=resume) as tracked:
        tracked.artifact(folder / RECIPE)
        return trainer.fit(
            objective,
            data.train,
            valid=data.valid,
            optimizer=recipe.sections["optimizer"].build(),
            schedule=recipe.sections["schedule"].build(),
            seed=recipe.seed,
            folder=folder,
            tracker=tracked,
            progress=progress,
            resume=resume,
            fingerprint=fingerprint,
            moments=moments,
        )


def require_same(recipe: Recipe, folder: Path) -> None:
    """Raise ``CheckpointError`` where the run in a folder was begun with a recipe of another result."""
    if not (folder / RECIPE).is_file():
        return
    before = load_recipe(folder / RECIPE)
    if before.digest != recipe.digest:
        old, new = flatten(before.tree), flatten(recipe.tree)
        changed = [key for key in (old | new) if old.get(key) != new.get(key)]
        shown = ", ".join(f"{key} (was {old.get(key)}, is {new.get(key)})" for key in changed[:3])
        raise CheckpointError(
            f"{folder} holds a run of another recipe: {shown}; resume with its own ({folder / RECIPE}), or choose "
            "another folder"
        )


def require_same_text(folder: Path, fingerprint: str) -> None:
    """Raise ``CheckpointError`` where the newest checkpoint knows another text; asked before anything is written."""
    for place in reversed(checkpoints(folder / CHECKPOINTS)):
        try:
            known = json.loads((place / STATE).read_text(encoding="utf-8"))["fingerprint"]
        except (OSError, ValueError, KeyError, TypeError):  # damaged, which whoever reads it whole will say
            continue
        if known.rpartition("-")[2] != fingerprint.rpartition("-")[2]:
            raise CheckpointError(
                f"{folder} was trained on a corpus of other text or another tokenizer; go on with its own "
                "(data.corpus), or choose another folder"
            )
        return


def keep_recipe(recipe: Recipe, folder: Path) -> None:
    """Write the resolved recipe into the run's folder, with the Python files that its own parts come from."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in recipe.own_files():
        if file.parent != folder.resolve():
            shutil.copy2(file, folder / file.name)
    write_text(folder / RECIPE, recipe.dump())


def choose_tracker(recipe: Recipe) -> Tracker:
    """The recipe's tracker; none where the recipe leaves it open and MLflow is not installed."""
    section = recipe.sections["tracking"]
    by_default = recipe.origins.get("tracking.type", "default") == "default"
    if section.type == "mlflow" and by_default and importlib.util.find_spec("mlflow") is None:
        warnings.warn("MLflow is not installed, so the run is not tracked", stacklevel=2)
        return NoTracking()
    tracker: Tracker = section.build()
    return tracker


def load_run(folder: Path) -> tuple[Recipe, TextRows, Objective]:
    """A run's recipe, its data, and its objective with the weights of the newest whole checkpoint, on the CPU.

    Raises:
        CheckpointError: the folder is not a run, or no checkpoint in it is whole.
    """
    if not (folder / RECIPE).is_file():
        files = [*folder.glob(f"*/{RECIPE}"), *folder.glob(f"cells/*/*/{RECIPE}")]
        inside = sorted(str(file.parent.relative_to(folder)) for file in files)
        shown = f" (runs in it: {', '.join(inside[:8])})" if inside else ""
        raise CheckpointError(f"{folder} is not a run's folder: it has no {RECIPE}{shown}")
    found = latest(folder / CHECKPOINTS)
    if found is None:
        raise CheckpointError(f"{folder} has no checkpoint yet")
    recipe = load_recipe(folder / RECIPE)
    data = open_text(recipe)
    objective = assemble(recipe, vocab=data.vocab, training=False)
    load_model(objective, found.model(), source=found.folder)
    return recipe, data, objective.eval()
