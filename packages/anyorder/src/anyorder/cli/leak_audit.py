"""Whether any prediction of a recipe can be reached by its own answer, on the recipe's own data."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from anyorder.core import TARGETS, MemoryState, Plan, TokenBatch
from anyorder.core.testing import AuditedSegment, find_leaks, perturbation_leaks
from anyorder.train.assemble import assemble, open_text
from anyorder.train.objective import Objective
from anyorder.train.recipe import Recipe

__all__ = ["audit"]

_ROWS, _SEGMENTS = 4, 3
_SHOWN = 10


def audit(recipe: Recipe, *, step: int) -> int:
    """Print a verdict and return the exit code: 1 where there is a leak.

    Two checks. Exactly, on the graph of who may attend to whom, through any number of layers and memory, over three
    segments. And by experiment: with random weights in float64 each target's token is replaced by another one, and no
    prediction at or before it may move by a single bit.
    """
    data = open_text(recipe)
    torch.manual_seed(recipe.seed)
    objective = assemble(recipe, vocab=data.vocab, training=False).double().eval()
    segments, batches = [], []
    for number in range(step, step + _SEGMENTS):
        batch = data.train.batch(number).map(lambda part: part[:_ROWS])
        plan = objective.plan(batch, seed=recipe.seed, step=number)
        streams = objective.prepare(batch, seed=recipe.seed, step=number, plan=plan)
        start = (number % data.train.steps_per_epoch) * data.train.stride
        segments.append(AuditedSegment.of(batch, plan, streams, start=start))
        batches.append((batch, plan))
    leaks = find_leaks(segments, memory=objective.memory)
    checked = sum(int(s.plan.target.sum()) for s in segments)
    print(f"graph: {checked} predictions in {_SEGMENTS} segments of {batches[0][0].rows} rows: {len(leaks)} leaks")
    for leak in leaks[:_SHOWN]:
        print(f"  {leak}")
    batch, plan = batches[-1]
    moved = perturbation_leaks(
        _Predict(objective, batches[:-1], seed=recipe.seed, step=step), batch, plan, vocab=data.vocab
    )
    layers = recipe.sections["model"].get("n_layer")
    print(f"model: {int(plan.target.sum())} tokens replaced under {layers} layers with memory: {len(moved)} leaks")
    for one in moved[:_SHOWN]:
        print(
            f"  row {one.row}: the prediction at {one.position} moved by {one.change:.2g} with the one at {one.source}"
        )
    if leaks or moved:
        print("LEAK: a prediction can see its own answer")
        return 1
    print("no leak: no target's token reaches its own prediction")
    return 0


class _Predict:
    """States from which an objective predicts, after the segments before have filled its memory.

    States and not log-probabilities: a head of any kind sees nothing else, and a state that moves is a leak already.
    """

    def __init__(self, objective: Objective, before: list[tuple[TokenBatch, Plan]], *, seed: int, step: int) -> None:
        self.objective, self.seed = objective, seed
        self.memory: MemoryState | None = None
        for number, (batch, plan) in enumerate(before, start=step):
            if self.memory is None:
                self.memory = objective.empty_memory(batch.rows)
            streams = objective.prepare(batch, seed=seed, step=number, plan=plan, scoring=True)
            memory = None if self.memory is None else self.memory.drop(batch.fresh)
            with torch.no_grad():
                self.memory = objective(streams, memory).memory

    def __call__(self, batch: TokenBatch, plan: Plan) -> Float[Tensor, "B P D"]:
        streams = self.objective.prepare(batch, seed=self.seed, step=0, plan=plan, scoring=True)
        memory = None if self.memory is None else self.memory.drop(batch.fresh)
        output = self.objective.states(streams, memory)
        readout = streams.readouts[TARGETS]
        hidden: Tensor = readout.gather(output.stream(readout.stream))
        return torch.where(readout.weight[..., None] > 0, hidden, 0.0)  # of weight 0 there is no prediction
