"""Settings of training, and what surrounds the loop: one owner a folder, one place a process, no stray randomness."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

import torch

from anyorder.core import CheckpointError, RecipeError

from . import checkpoint
from .atomic import sole_owner
from .distributed import Team
from .evaluate import RowSource
from .fit_result import CHECKPOINTS, METRICS, FitResult
from .interrupt import stop_on_signals
from .loop import Loop
from .moments import Moments
from .objective import Objective
from .optimizer import AdamW
from .precision import slow_bf16
from .progress import RunProgress, SilentProgress, console_progress
from .resumption import restore_loop
from .schedule import Schedule
from .tracking import TrackedRun, UntrackedRun

__all__ = ["Trainer", "require_unused"]


class Trainer:
    """Trains an objective. The constructor's signature is the ``train`` section of a recipe.

    A step reads one segment of each of ``batch_size`` rows. With ``accumulate`` of k the rows are computed in k slices,
    one after another, each with the memory of its own rows, and the optimiser moves once: every row still goes
    forward by one segment a step, so memory stays in order and results do not depend on k. Under torchrun the rows
    are divided among the processes in the same way. Losses are sums that are divided once, by the weight of the
    whole step.

    Dropout is drawn from (seed, step, process), so that a run's state needs no generator; it is the one thing that
    ``accumulate`` and the number of processes do change.

    Args:
        steps: number of steps in all.
        batch_size: rows a step, over all processes and slices.
        accumulate: slices of each process's rows.
        precision: ``fp32``, or ``bf16`` for autocast (weights, optimiser and memory stay fp32).
        compile: compile the objective with ``torch.compile``, once to train and once to evaluate, which takes a
            minute or more and, on a CPU, a C++ compiler.
        clip: largest global norm of the gradient; None does not clip.
        log_every: every how many steps to show and track a step, besides steps 1, 2, 5, 10, 20, 50 and so on.
        eval_every: every how many steps to evaluate, besides the last; None only then.
        eval_batches: how many segments of each held-out row to evaluate on.
        checkpoint_every: every how many steps to save a checkpoint, besides the last.
        keep: how many checkpoints to keep.
        deterministic: on GPUs, refuse or replace operations whose result depends on timing. On the CPU results
            never do.
        device: ``cpu``, ``cuda`` or ``auto``.

    Raises:
        RecipeError: a value out of range.
    """

    def __init__(
        self,
        *,
        steps: int,
        batch_size: int,
        accumulate: int = 1,
        precision: Literal["fp32", "bf16"] = "fp32",
        compile: bool = False,  # noqa: A002 - the recipe's key
        clip: float | None = 1.0,
        log_every: int = 20,
        eval_every: int | None = None,
        eval_batches: int = 16,
        checkpoint_every: int = 200,
        keep: int = 2,
        deterministic: bool = False,
        device: str = "auto",
    ) -> None:
        at_least_one = {
            "steps": steps,
            "batch_size": batch_size,
            "accumulate": accumulate,
            "log_every": log_every,
            "eval_every": eval_every,
            "eval_batches": eval_batches,
            "checkpoint_every": checkpoint_every,
            "keep": keep,
        }
        for name, value in at_least_one.items():
            if value is not None and value < 1:
                raise RecipeError(f"{name} is {value}; it must be 1 or more", path=f"train.{name}")
        if precision not in ("fp32", "bf16"):
            raise RecipeError(f"precision is {precision!r}; allowed are 'fp32' and 'bf16'", path="train.precision")
        if clip is not None and not clip > 0:
            raise RecipeError(f"clip is {clip}; it must be above 0, or null for none", path="train.clip")
        self.steps, self.batch_size, self.accumulate, self.keep = steps, batch_size, accumulate, keep
        self.precision, self.compile, self.clip = precision, compile, clip
        self.log_every, self.eval_every, self.eval_batches = log_every, eval_every, eval_batches
        self.checkpoint_every, self.deterministic, self.device = checkpoint_every, deterministic, device

    def fit(
        self,
        objective: Objective,
        data: RowSource,
        *,
        optimizer: AdamW,
        schedule: Schedule,
        seed: int,
        folder: Path,
        tracker: TrackedRun | None = None,
        progress: RunProgress | None = None,
        resume: bool = False,
        valid: RowSource | None = None,
        fingerprint: str = "",
        moments: Moments | None = None,
    ) -> FitResult:
        """Train, and leave checkpoints, ``metrics.jsonl`` and curves in ``folder``.

        Args:
            data, valid: rows to train on and rows held out; ``batch(n)`` gives the rows of step ``n``, from 0.
            seed: key of every draw.
            folder: the run's folder; without ``resume`` there must be no run in it.
            tracker: where to send metrics and files, opened and closed by the caller.
            progress: what to say meanwhile; a bar or plain lines on standard error by default.
            resume: go on from the newest whole checkpoint, bit for bit, or from the start if there is none.
            fingerprint: of whatever decides the run's result; a checkpoint of another one is refused.
            moments: of Adam, to begin with where nothing is resumed.

        Raises:
            CheckpointError: the folder holds a run already, or nothing that can be resumed.
            NonFiniteError: a loss or gradient is not finite.
            DiskFullError: a file could not be written.
            Interrupted: a signal stopped the run after a checkpoint.
        """
        team = Team.join(self.device)
        if self.precision == "bf16" and (slow := slow_bf16(team.device)):
            warnings.warn(f"train.precision is 'bf16', and {slow}; set it to 'fp32'", stacklevel=2)
        schedule.check(self.steps)
        rows = self._rows(team)
        if progress is None or not team.first:
            progress = console_progress() if team.first else SilentProgress()
        if tracker is None or not team.first:
            tracker = UntrackedRun()
        if not resume:
            require_unused(folder)
        with ExitStack() as stack:
            if team.first:
                stack.enter_context(sole_owner(folder))
            stack.enter_context(_reproducible(team, deterministic=self.deterministic))
            stop = stack.enter_context(stop_on_signals(progress.note))
            built = optimizer.build(objective.to(team.device))
            if moments is not None:
                progress.note(moments.give(objective, built))
            loop = Loop(
                self,
                objective,
                data=data,
                valid=valid,
                optimizer=built,
                schedule=schedule,
                seed=seed,
                fingerprint=fingerprint,
                folder=folder,
                team=team,
                rows=rows,
                tracker=tracker,
                progress=progress,
            )
            if resume:
                restore_loop(loop)
            return loop.run(stop)

    def shows(self, step: int) -> bool:
        """Whether a step is shown and tracked."""
        if step % self.log_every == 0 or step == self.steps:
            return True
        return step < self.log_every and str(step).rstrip("0") in ("1", "2", "5")

    def _rows(self, team: Team) -> tuple[range, ...]:
        """The rows of each of this process's slices."""
        slices = team.size * self.accumulate
        if self.batch_size % slices:
            raise RecipeError(
                f"batch_size is {self.batch_size} rows, which {team.size} processes of {self.accumulate} slices cannot "
                f"share equally; use a multiple of {slices}",
                path="train.batch_size",
            )
        size = self.batch_size // slices
        first = team.rank * self.accumulate
        return tuple(range((first + i) * size, (first + i + 1) * size) for i in range(self.accumulate))


def require_unused(folder: Path) -> None:
    """Raise ``CheckpointError`` where a folder holds a run already: nothing that a user made is overwritten."""
    found = [*checkpoint.checkpoints(folder / CHECKPOINTS), *folder.glob(METRICS)]
    if found:
        raise CheckpointError(
            f"{folder} holds a run already ({found[-1].relative_to(folder)}): go on with it with --resume, choose "
            "another folder, or remove it yourself"
        )


@contextmanager
def _reproducible(team: Team, *, deterministic: bool) -> Iterator[None]:
    """Leave torch's global generators and switches as they were."""
    switches, before = torch.utils.deterministic, torch.are_deterministic_algorithms_enabled()
    filling: bool = switches.fill_uninitialized_memory  # type: ignore[attr-defined]
    with torch.random.fork_rng(devices=[team.device] if team.device.type == "cuda" else []):
        try:
            if deterministic:
                os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what cuBLAS asks for
                torch.use_deterministic_algorithms(True)
                switches.fill_uninitialized_memory = False  # type: ignore[attr-defined]
            yield
        finally:
            torch.use_deterministic_algorithms(before)
            switches.fill_uninitialized_memory = filling  # type: ignore[attr-defined]
