"""The objective's own loss on held-out rows."""

from __future__ import annotations

from typing import Protocol

import torch

from anyorder.core import MemoryState, TokenBatch, map_tensors

from .distributed import Team
from .objective import Objective

__all__ = ["RowSource", "evaluate", "take_rows"]

_SEED = 0


class RowSource(Protocol):
    """Contiguous rows: ``batch(n)`` is segment ``n`` of every row, a pure function of ``n``.

    A source may tell its ``stride``, how far apart segments of a row start (their whole length by default), and its
    ``steps_per_epoch`` (no end by default).
    """

    def batch(self, step: int) -> TokenBatch: ...


def take_rows(batch: TokenBatch, start: int, stop: int) -> TokenBatch:
    """Some rows of a batch."""
    taken: TokenBatch = map_tensors(batch, lambda tensor: tensor[start:stop])
    return taken


@torch.no_grad()
def evaluate(objective: Objective, data: RowSource, *, batches: int, team: Team | None = None) -> dict[str, float]:
    """Mean loss in nats of each head over the first segments of held-out rows, with memory from one to the next.

    Dropout is off, and targets and corruption are drawn with a seed of their own, so that the same weights give the
    same number at any time. Processes share the rows and return the same result.

    Args:
        batches: how many segments of each row, fewer where ``data.steps_per_epoch`` says so.

    Returns:
        ``loss``, the weighted total over heads, and ``loss/NAME`` of each head that had anything to predict.
    """
    team = Team(rank=0, size=1, device=objective.embedding.device) if team is None else team
    batches = min(batches, getattr(data, "steps_per_epoch", batches))
    names = list(objective.heads)
    sums = torch.zeros(len(names), 2, dtype=torch.float64, device=team.device)  # [head, (loss, weight)]
    memory: MemoryState | None = None
    training = objective.training
    objective.eval()
    try:
        for step in range(batches):
            batch = data.batch(step)
            start, stop = (batch.rows * (team.rank + i) // team.size for i in (0, 1))
            if start == stop:
                continue
            batch = take_rows(batch, start, stop)
            streams = objective.prepare(batch, seed=_SEED, step=step, rows=torch.arange(start, stop)).to(team.device)
            memory = objective.empty_memory(batch.rows, projected=True) if step == 0 else memory
            if memory is not None:
                memory = memory.drop(batch.fresh.to(team.device))
            output = objective(streams, memory)
            memory = output.memory
            for index, name in enumerate(names):
                loss = output.losses[name]
                sums[index] += torch.stack([loss.loss_sum.double(), loss.weight_sum.double()])
    finally:
        objective.train(training)
    means = {
        name: loss / weight for name, (loss, weight) in zip(names, team.sum(sums).tolist(), strict=True) if weight > 0
    }
    total = sum(objective.head_weights[name] * mean for name, mean in means.items())
    return {"loss": total} | {f"loss/{name}": mean for name, mean in means.items()}
