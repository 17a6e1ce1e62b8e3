"""The coverage argument of XLNet's section 2.6, counted."""

from __future__ import annotations

from itertools import combinations, permutations

import pytest
import torch

from anyorder.core import Draws, MaskBuilder, Plan, TokenBatch, Vocab
from anyorder.masks import InPlace, Shift, TwoStream
from anyorder.train.coverage import Conditional, conditionals, count_coverage

VOCAB = Vocab(size=30)


def found(masks: MaskBuilder, plan: Plan, *, ids: torch.Tensor | None = None) -> list[Conditional]:
    rows, length = plan.time.shape
    batch = TokenBatch.of(torch.arange(9, 9 + length).expand(rows, -1) if ids is None else ids)
    streams = masks.build(batch, plan, vocab=VOCAB, num_targets=length, generator=Draws(0, rows=rows))
    return list(conditionals(batch, plan, streams))


def subsets(known: frozenset[int]) -> set[frozenset[int]]:
    return {frozenset(part) for size in range(len(known) + 1) for part in combinations(known, size)}


def test_new_york_is_a_city() -> None:
    """Targets New and York, New first: the PLM has p(York | New, is a city), which the DAE has not."""
    target = torch.tensor([[True, True, False, False, False]])
    dae = found(InPlace(mask=1.0, random=0.0), Plan.of(target.long(), target))
    plm = found(TwoStream(), Plan.of(torch.tensor([[1, 2, 0, 0, 0]]), target))
    context = frozenset({2, 3, 4})
    assert [(one.target, one.known) for one in dae] == [(0, context), (1, context)]
    assert [(one.target, one.known) for one in plm] == [(0, context), (1, context | {0})]
    assert count_coverage(dae).covered == 16
    assert count_coverage(plm).covered == 24
    assert count_coverage(plm).covered_at_once == 16
    assert count_coverage(plm).gain == 1.5
    assert count_coverage(dae).gain == 1.0


def test_covered_is_every_subset_of_what_is_known() -> None:
    """The closed count against the dependencies themselves, listed."""
    plan = Plan.from_order(torch.tensor([[3, 0, 4, 2, 1]]), given=1)
    plm = found(TwoStream(), plan)
    listed = {(one.target, part) for one in plm for part in subsets(one.known)}
    assert count_coverage(plm).covered == len(listed) == 2 + 4 + 8 + 16
    at_once = found(InPlace(mask=1.0, random=0.0), Plan.of(plan.target.long(), plan.target))
    alone = {(one.target, part) for one in at_once for part in subsets(one.known)}
    assert alone < listed
    assert count_coverage(plm).covered_at_once == count_coverage(at_once).covered == len(alone)


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_all_orders_have_every_conditional(length: int) -> None:
    """``n 2^(n-1)`` different sets; left to right has ``n`` of them."""
    orders = torch.tensor(list(permutations(range(length)))).view(-1, length)
    every = [one for order in orders for one in found(TwoStream(), Plan.from_order(order[None]))]
    assert count_coverage(every).distinct == length * 2 ** (length - 1)
    assert count_coverage(every).pairs == length * (length - 1)
    identity = count_coverage(found(TwoStream(), Plan.from_order(torch.arange(length)[None])))
    assert identity.distinct == length
    assert identity.pairs == length * (length - 1) // 2
    causal = count_coverage(found(Shift(), Plan.from_order(torch.arange(length)[None])))
    assert causal.distinct == length - 1, "shift has no prediction of the first token"


def test_what_is_known_goes_through_layers() -> None:
    """Blocks: a token of the second block sees the first, and through it nothing more."""
    target = torch.zeros(1, 6, dtype=torch.bool)
    target[0, [1, 4]] = True
    batch = TokenBatch.of(torch.arange(9, 15)[None], block=torch.tensor([[0, 0, 0, 1, 1, 1]]))
    plan = Plan.of(target.long(), target).within_blocks(batch)
    streams = TwoStream().build(batch, plan, vocab=VOCAB, num_targets=2, generator=Draws(0, rows=1))
    first, second = conditionals(batch, plan, streams)
    assert first.known == {0, 2}
    assert second.known == {0, 1, 2, 3, 5}
    assert second.known_targets == {1}


def test_a_kept_token_is_no_conditional() -> None:
    target = torch.ones(1, 5, dtype=torch.bool)
    plan = Plan.of(target.long(), target)
    assert found(InPlace(mask=0.0, random=0.0), plan) == []
    assert count_coverage([]).gain == 1.0
