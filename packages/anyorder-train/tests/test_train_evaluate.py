"""The held-out loss, against one written out by hand."""

from __future__ import annotations

import pytest
import torch
from small_training import CountingText, small_objective

from anyorder.train.distributed import Team
from anyorder.train.evaluate import evaluate


@pytest.mark.parametrize("kind", ["plm", "mlm", "clm"])
def test_it_is_the_weighted_mean_with_memory_and_without_dropout(kind: str) -> None:
    objective, data = small_objective(kind, dropout=0.5), CountingText()
    objective.train()
    result = evaluate(objective, data, batches=4)
    assert objective.training
    objective.eval()
    memory, loss, weight = objective.empty_memory(4), 0.0, 0.0
    with torch.no_grad():
        for step in range(4):
            batch = data.batch(step)
            output = objective(objective.prepare(batch, seed=0, step=step), memory.drop(batch.fresh))
            memory = output.memory
            loss += output.losses["loss"].loss_sum.item()
            weight += output.losses["loss"].weight_sum.item()
    assert result == {"loss": pytest.approx(loss / weight), "loss/loss": pytest.approx(loss / weight)}
    assert evaluate(objective, data, batches=4) == result


def test_it_stops_at_the_end_of_short_data() -> None:
    class Short(CountingText):
        steps_per_epoch = 2

    objective = small_objective("clm")
    assert evaluate(objective, Short(), batches=50) == evaluate(objective, CountingText(), batches=2)


def test_shares_of_processes_add_up() -> None:
    objective, data = small_objective("clm"), CountingText(rows=5)
    sums = []

    class Part(Team):
        def sum(self, value):
            sums.append(value)
            return value

    device = torch.device("cpu")
    for rank in range(3):
        evaluate(objective, data, batches=3, team=Part(rank=rank, size=3, device=device))
    loss, weight = torch.stack(sums).sum(0)[0].tolist()
    assert loss / weight == pytest.approx(evaluate(objective, data, batches=3)["loss"])
