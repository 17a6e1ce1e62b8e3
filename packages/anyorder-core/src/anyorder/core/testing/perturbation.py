"""Leak check of a whole model: no prediction may move when a token at or after it in the order changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from ..batch import TokenBatch
from ..plan import Plan
from ..vocab import Vocab

Predict = Callable[[TokenBatch, Plan], Float[Tensor, "B P V"]]
"""Log-probabilities over the vocabulary, prediction ``p`` being of a row's ``p``-th target in natural order."""


@dataclass(frozen=True, kw_only=True)
class Moved:
    """The prediction at ``position`` moved by ``change`` when the token at ``source`` was another one."""

    row: int
    position: int
    source: int
    change: float


@torch.no_grad()
def perturbation_leaks(
    predict: Predict, batch: TokenBatch, plan: Plan, *, vocab: Vocab, tolerance: float = 0.0
) -> list[Moved]:
    """Change one target of every row at a time, and report the predictions that move and must not.

    Use float64, no dropout and a mask builder's ``scoring()``, so that ``predict`` is a function of its arguments.

    Args:
        tolerance: greatest change of a log-probability that counts as none.
    """
    before = predict(batch, plan)
    places = [plan.target[row].nonzero().flatten().tolist() for row in range(batch.rows)]
    moved = []
    for number in range(max(map(len, places), default=0)):
        ids = batch.ids.clone()
        for row, targets in enumerate(places):
            if number < len(targets):
                ids[row, targets[number]] = another_id(int(ids[row, targets[number]]), vocab=vocab)
        after = predict(replace(batch, ids=ids), plan)
        change = (after - before).abs().amax(dim=2)  # [B, P]
        for row, targets in enumerate(places):
            if number >= len(targets):
                continue
            source = targets[number]
            for prediction, position in enumerate(targets):
                size = float(change[row, prediction])
                if plan.time[row, position] <= plan.time[row, source] and not size <= tolerance:
                    moved.append(Moved(row=row, position=position, source=source, change=size))
    return moved


def another_id(token: int, *, vocab: Vocab) -> int:
    """The next id that is not ``token`` and stands for text."""
    control = set(vocab.control)
    return next(
        other for other in ((token + step) % vocab.size for step in range(1, vocab.size)) if other not in control
    )
