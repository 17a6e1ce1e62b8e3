"""A run's state in a checkpoint and back: weights, optimiser, memory and what was counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from anyorder.core import CheckpointError, map_tensors

from . import checkpoint
from .fit_result import CHECKPOINTS
from .metrics_log import MetricsLog
from .share import join_memory, slice_memory

if TYPE_CHECKING:
    from .loop import Loop

__all__ = ["restore_loop", "save_loop"]


def save_loop(loop: Loop, log: MetricsLog | None) -> None:
    """Write a checkpoint of the present step."""
    memory = join_memory(loop.memories)
    if memory is not None:
        memory = map_tensors(memory, loop.team.join_rows)
    if log is not None:  # what a checkpoint stands for is on the disk before it
        log.sync()
        loop.tracker.flush()
        loop.last_saved = checkpoint.save(
            loop.folder / CHECKPOINTS,
            step=loop.step,
            model=loop.objective,
            optimizer=loop.optimizer,
            memory=memory,
            keep=loop.settings.keep,
            state={
                "seed": loop.seed,
                "fingerprint": loop.fingerprint,
                "steps": loop.settings.steps,
                "seconds": loop.seconds,
                "tokens": loop.tokens,
                "torch": torch.__version__,
            },
        )
    loop.team.wait()


def restore_loop(loop: Loop) -> None:
    """Go back to the newest whole checkpoint; without any, stay at the start.

    Raises:
        CheckpointError: it is of another model, recipe, seed or number of rows, or none is whole.
    """
    root = loop.folder / CHECKPOINTS
    found = checkpoint.latest(root)
    loop.team.wait()  # nobody sets damaged ones aside while another still looks
    if loop.team.first:
        checkpoint.tidy(root, after=0 if found is None else found.step)
    if found is None:
        loop.progress.note(f"no checkpoint in {root}: starting from step 0")
        return
    for name, own in (("fingerprint", loop.fingerprint), ("seed", loop.seed)):
        if found.state[name] != own:
            what = "recipe" if name == "fingerprint" else "seed"
            raise CheckpointError(
                f"{found.folder} was made with another {what} ({found.state[name]!r}, now {own!r}): resume with "
                "the one it was made with, or choose another folder"
            )
    found.restore(loop.objective, loop.optimizer)
    memory, own_memory = found.memory(), loop.memories[0]
    if (memory is None) != (own_memory is None):
        raise CheckpointError(f"{found.folder} was made {'without' if memory is None else 'with'} memory")
    if memory is not None and own_memory is not None:
        rows, wanted = memory.position.shape[0], loop.settings.batch_size
        if rows != wanted or len(memory.layers) != len(own_memory.layers):
            raise CheckpointError(
                f"{found.folder} remembers {rows} rows of {len(memory.layers)} layers; this run has {wanted} of "
                f"{len(own_memory.layers)}"
            )
        loop.memories = [slice_memory(memory, part).to(loop.team.device) for part in loop.rows]
    loop.step, loop.last_saved = found.step, found.folder
    loop.seconds, loop.tokens = found.state["seconds"], found.state["tokens"]
    loop.progress.note(f"continuing from step {loop.step} ({found.folder})")
