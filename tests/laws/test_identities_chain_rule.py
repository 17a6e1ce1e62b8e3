"""The chain rule's product is a distribution over sequences, whatever the order, the context and the memory."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch

from anyorder.core import Plan, TokenBatch
from anyorder.masks import InPlace, Shift, TwoStream
from anyorder.memory import SegmentMemory
from anyorder.orders import LeftToRight, Permutation, Prefix, Subset
from anyorder.orders.permutation import plan_from_ranks
from anyorder.train.objective import Objective

from .model_parts import tiny_objective, tokens

WORDS, FIRST = 3, 9


def joint(objective: Objective, ids: torch.Tensor, plans: list[Plan], *, memory=None) -> torch.Tensor:
    """[B] log-probability of every row's targets among ``WORDS`` words, summed over plans."""
    total = torch.zeros(len(ids), dtype=torch.float64)
    for plan in plans:
        batch = TokenBatch.of(ids)
        count = int(plan.target.sum(1).max())
        streams = objective.prepare(batch, seed=0, step=0, plan=plan, num_targets=count, scoring=True)
        readout = streams.readouts["loss"]
        with torch.no_grad():
            hidden = readout.gather(objective.backbone(streams, memory).stream(readout.stream))
            logits = objective.heads["loss"].logits(hidden, embedding=objective.embedding)
        log_p = logits[..., FIRST : FIRST + WORDS].log_softmax(-1)
        chosen = log_p.gather(2, (readout.labels - FIRST).clamp(0, WORDS - 1)[..., None])[..., 0]
        total += (chosen * readout.weight).sum(1)
    return total


def all_sequences(places: list[int], length: int) -> torch.Tensor:
    """Every way to fill some places; the others hold fixed words."""
    filled = torch.cartesian_prod(*[torch.arange(FIRST, FIRST + WORDS)] * len(places)).view(-1, len(places))
    ids = tokens(1, length).expand(len(filled), -1).clone()
    ids[:, places] = filled
    return ids


def is_one(log_p: torch.Tensor) -> None:
    torch.testing.assert_close(log_p.exp().sum(), torch.tensor(1.0, dtype=torch.float64), rtol=0, atol=1e-11)
    assert float(log_p.exp().std()) > 1e-4, "not uniform by accident"


@pytest.mark.parametrize("given", [0, 1, 2, 3])
def test_every_order_after_every_given_part(given: int) -> None:
    """All orders of four tokens, their first ``given`` being an unordered context."""
    objective = tiny_objective(Permutation(), TwoStream())
    for order in permutations(range(4)):
        ids = all_sequences(sorted(order[given:]), 4)
        plan = Plan.from_order(torch.tensor([order]).expand(len(ids), -1), given=given)
        is_one(joint(objective, ids, [plan]))


def test_every_order_of_an_ordered_context() -> None:
    """Context has ranks as well (equation 5 of the paper): all orders of context and targets."""
    objective = tiny_objective(Permutation(context="ordered"), TwoStream())
    for order in permutations(range(4)):
        ids = all_sequences([1, 3], 4)
        rank = torch.tensor([order]).argsort(1).expand(len(ids), -1)
        target = torch.zeros_like(ids, dtype=torch.bool)
        target[:, [1, 3]] = True
        plan = plan_from_ranks(TokenBatch.of(ids), rank, target, context="ordered")
        is_one(joint(objective, ids, [plan]))


def test_with_what_memory_keeps() -> None:
    memory = SegmentMemory(mem_len=5)
    objective = tiny_objective(Permutation(), TwoStream(), memory=memory)
    for order in permutations(range(3)):
        ids = all_sequences([0, 1, 2], 3)
        past = TokenBatch.of(tokens(1, 5, seed=7).expand(len(ids), -1))
        plan = Plan.from_order(torch.arange(5).expand(len(ids), -1), given=4)
        streams = objective.prepare(past, seed=0, step=0, plan=plan, num_targets=1)
        with torch.no_grad():
            state = objective(streams, objective.empty_memory(len(ids))).memory
        follow = Plan.from_order(torch.tensor([order]).expand(len(ids), -1))
        with_past = joint(objective, ids, [follow], memory=state)
        is_one(with_past)
        assert float((with_past - joint(objective, ids, [follow])).abs().max()) > 1e-3, "memory is read"


def test_left_to_right_after_a_prefix() -> None:
    for prefix in (1, 2, 3):
        ids = all_sequences(list(range(prefix, 4)), 4)
        time = (torch.arange(4) - prefix + 1).clamp(min=0).expand(len(ids), -1)
        for order, masks in ((Prefix(), Shift()), (LeftToRight(), TwoStream())):
            is_one(joint(tiny_objective(order, masks), ids, [Plan.of(time, time > 0)]))


def test_a_masked_model_one_pass_a_token() -> None:
    """A product of simultaneous predictions sums to one as well; only the chain rule's depends on the order."""
    objective = tiny_objective(Subset(), InPlace())
    ids = all_sequences([0, 1, 2], 3)
    found = []
    for order in permutations(range(3)):
        plans = []
        for rank in range(3):
            hidden = torch.zeros(len(ids), 3, dtype=torch.bool)
            hidden[:, list(order[rank:])] = True
            weight = torch.zeros(len(ids), 3)
            weight[:, order[rank]] = 1
            plans.append(Plan.of(hidden.long(), hidden, weight))
        found.append(joint(objective, ids, plans))
        is_one(found[-1])
    at_once = joint(objective, ids, [Plan.of(torch.ones_like(ids), torch.ones_like(ids, dtype=torch.bool))])
    is_one(at_once)
    assert all(float((found[0] - other).abs().max()) > 1e-3 for other in [*found[1:], at_once])
