"""What one pass of the query stream computes, done the slow way: a pass for every target."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
import torch

from anyorder.core import QUERY_ID, Plan, Slots, Streams, TokenBatch, Visibility
from anyorder.masks import InPlace, Shift, TwoStream
from anyorder.memory import SegmentMemory
from anyorder.orders import LeftToRight, Permutation, Prefix, Subset
from anyorder.train.yardsticks.plans import one_pass_each

from .model_parts import VOCAB, tiny_objective, tokens

NEVER = torch.iinfo(torch.int64).max


def known_tokens(streams: Streams, batch: TokenBatch) -> list[list[frozenset[int]]]:
    """For every prediction of every row, the tokens that it may see; a masked slot shows none."""
    readout = streams.readouts["targets"]
    readers = streams.content if readout.stream == "content" else streams.query
    sees = Visibility.of(readers, streams.content).dense()  # [B, N, K]
    shown = streams.content.ids == batch.ids  # [B, K]
    found = []
    for row in range(batch.rows):
        each = []
        for index, weight in zip(readout.index[row].tolist(), readout.weight[row].tolist(), strict=True):
            if weight:
                each.append(frozenset((sees[row, index] & shown[row]).nonzero().flatten().tolist()))
        found.append(each)
    return found


def build(masks, batch: TokenBatch, plan: Plan) -> Streams:  # type: ignore[no-untyped-def]
    objective = tiny_objective(Permutation(), TwoStream())
    objective.masks = masks
    return objective.prepare(batch, seed=0, step=0, plan=plan, num_targets=batch.length, scoring=True)


def test_a_causal_lm_sees_what_the_identity_order_sees() -> None:
    batch = TokenBatch.of(tokens(2, 6))
    own = LeftToRight().sample(batch, generator=None)  # type: ignore[arg-type]
    identity = Plan.from_order(torch.arange(6).expand(2, -1))
    causal = known_tokens(build(Shift(), batch, own), batch)
    query = known_tokens(build(TwoStream(), batch, identity), batch)
    assert query[0] == [frozenset(range(place)) for place in range(6)]
    assert causal == [row[1:] for row in query], "shift has no place to predict the first token from"


@pytest.mark.parametrize("prefix", [1, 2, 4])
def test_a_prefix_lm_sees_what_the_identity_order_sees_after_a_cut(prefix: int) -> None:
    batch = TokenBatch.of(tokens(1, 6))
    plan = Plan.from_order(torch.arange(6)[None], given=prefix)
    assert Prefix().traits == LeftToRight().traits
    causal, query = (known_tokens(build(masks, batch, plan), batch) for masks in (Shift(), TwoStream()))
    assert causal == query == [[frozenset(range(place)) for place in range(prefix, 6)]]


def test_every_order_sees_what_stands_before_it() -> None:
    """All 120 orders of five tokens at every cut: given tokens and earlier targets, and no more."""
    orders = torch.tensor(list(permutations(range(5))))
    batch = TokenBatch.of(tokens(1, 5).expand(len(orders), -1))
    for given in range(5):
        found = known_tokens(build(TwoStream(), batch, Plan.from_order(orders, given=given)), batch)
        for order, sets in zip(orders.tolist(), found, strict=True):
            expected = {place: frozenset(order[:rank]) for rank, place in enumerate(order) if rank >= given}
            assert sets == [expected[place] for place in sorted(expected)]


def test_masked_copies_with_one_target_each_condition_on_what_the_order_does() -> None:
    """K cut copies of a DAE, the j-th hiding its target and all later ones, cover the PLM's K terms."""
    orders = torch.tensor(list(permutations(range(5))))
    batch = TokenBatch.of(tokens(1, 5).expand(len(orders), -1))
    for given in range(5):
        plan = Plan.from_order(orders, given=given)
        ours = known_tokens(build(TwoStream(), batch, plan), batch)
        copies: list[dict[int, frozenset[int]]] = [{} for _ in orders]
        for rank in range(given, 5):
            hidden = plan.time > rank - given
            alone = plan.time == rank - given + 1
            masked = build(InPlace(), batch, Plan.of(hidden.long(), hidden, alone.float()))
            for row, sets in enumerate(known_tokens(masked, batch)):
                (copies[row][orders[row, rank].item()],) = sets
        assert ours == [[copy[place] for place in sorted(copy)] for copy in copies]


def test_in_a_single_pass_a_dae_conditions_on_the_context_alone() -> None:
    batch = TokenBatch.of(tokens(1, 5))
    plan = Plan.from_order(torch.tensor([[2, 0, 4, 1, 3]]), given=2)
    dae = known_tokens(build(InPlace(), batch, Plan.of(plan.target.long(), plan.target)), batch)
    plm = known_tokens(build(TwoStream(), batch, plan), batch)
    assert dae == [[frozenset({0, 2})] * 3]
    assert all(one <= other for one, other in zip(dae[0], plm[0], strict=True))
    assert sum(one == other for one, other in zip(dae[0], plm[0], strict=True)) == 1, "the first target of the order"


def test_masked_copies_of_one_model_give_the_chain_rule_of_its_plans() -> None:
    """The same, in numbers: the yardsticks' plans against passes over inputs masked by hand."""
    objective = tiny_objective(Subset(), InPlace())
    batch = TokenBatch.of(tokens(1, 6))
    hidden = torch.tensor([[False, True, True, False, True, False]])
    for turn, plan in enumerate(one_pass_each(batch, hidden)):
        streams = objective.prepare(batch, seed=0, step=0, plan=plan, num_targets=3, scoring=True)
        place = [1, 2, 4][turn]
        masked = batch.ids.clone()
        masked[0, [1, 2, 4][turn:]] = VOCAB.mask
        by_hand = Streams(content=Slots.of_tokens(batch, torch.zeros_like(masked), ids=masked))
        with torch.no_grad():
            ours = objective.backbone(streams).content[0, place]
            torch.testing.assert_close(ours, objective.backbone(by_hand).content[0, place], rtol=0, atol=1e-12)


@pytest.mark.parametrize("mem_len", [0, 4])
@pytest.mark.parametrize("context", ["unordered", "ordered"])
def test_the_query_stream_is_one_pass_of_the_content_stream_a_target(mem_len: int, context: str) -> None:
    """In each pass the target's slot holds the learned query vector, sees what may be known, and is nobody's key."""
    objective = tiny_objective(
        Permutation(context=context),  # type: ignore[arg-type]
        TwoStream(),
        memory=SegmentMemory(mem_len=mem_len),
    )
    past, batch = (TokenBatch.of(tokens(2, 8, seed=seed)) for seed in (3, 4))
    plan = objective.plan(batch, seed=5, step=0)
    assert int(plan.target.sum()) >= 2
    with torch.no_grad():
        memory = objective(objective.prepare(past, seed=1, step=0), objective.empty_memory(2)).memory
        streams = objective.prepare(batch, seed=5, step=0, plan=plan)
        query = objective.backbone(streams, memory).query
        for row, number in (streams.readouts["targets"].weight > 0).nonzero().tolist():
            place = int(streams.query.position[row, number])
            ids, birth, time = batch.ids.clone(), plan.time.clone(), plan.time.clone()
            ids[row, place], birth[row, place] = QUERY_ID, NEVER
            time[row, place] -= 1
            alone = replace(Slots.of_tokens(batch, birth, ids=ids), time=time)
            slow = objective.backbone(Streams(content=alone), memory).content[row, place]
            torch.testing.assert_close(query[row, number], slow, rtol=0, atol=1e-12)


def test_for_every_order_of_five_tokens() -> None:
    objective = tiny_objective(Permutation(), TwoStream())
    orders = torch.tensor(list(permutations(range(5))))
    batch = TokenBatch.of(tokens(1, 5).expand(len(orders), -1))
    plan = Plan.from_order(orders)
    streams = objective.prepare(batch, seed=0, step=0, plan=plan, num_targets=5)
    with torch.no_grad():
        query = objective.backbone(streams).query
        for place in range(5):  # of all rows at once, at different ranks
            ids, birth, time = batch.ids.clone(), plan.time.clone(), plan.time.clone()
            ids[:, place], birth[:, place] = QUERY_ID, NEVER
            time[:, place] -= 1
            alone = replace(Slots.of_tokens(batch, birth, ids=ids), time=time)
            slow = objective.backbone(Streams(content=alone)).content[:, place]
            torch.testing.assert_close(query[:, place], slow, rtol=0, atol=1e-12)
