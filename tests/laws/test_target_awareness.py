"""XLNet's argument for a second stream, and what each objective's terms condition on."""

from __future__ import annotations

from itertools import permutations

import torch

from anyorder.core import Draws, Plan, TokenBatch
from anyorder.masks import InPlace, TwoStream
from anyorder.orders import LeftToRight, Permutation, Subset

from .model_parts import VOCAB, tiny_objective, tokens


def log_probabilities(objective, batch: TokenBatch, plan: Plan) -> torch.Tensor:  # type: ignore[no-untyped-def]
    """[B, P, V] of every target in ascending position."""
    count = int(plan.target.sum(1).max())
    streams = objective.prepare(batch, seed=0, step=0, plan=plan, num_targets=count, scoring=True)
    readout = streams.readouts["loss"]
    hidden = readout.gather(objective.backbone(streams).stream(readout.stream))
    logits = objective.heads["loss"].logits(hidden, embedding=objective.embedding)
    return logits.log_softmax(-1)


def plan_of(order: list[int], *, given: int) -> Plan:
    return Plan.from_order(torch.tensor([order]), given=given)


def test_the_query_knows_where_it_predicts() -> None:
    """Two orders share a prefix and go on at different places: the distributions must differ (XLNet section 2.3)."""
    batch = TokenBatch.of(tokens(1, 5))
    objective = tiny_objective(Permutation(), TwoStream())
    at_2 = log_probabilities(objective, batch, plan_of([0, 1, 2, 3, 4], given=2))
    at_4 = log_probabilities(objective, batch, plan_of([0, 1, 4, 3, 2], given=2))
    next_is_2, next_is_4 = at_2[0, 0], at_4[0, 2]  # each the first target of its order
    assert float((next_is_2 - next_is_4).abs().max()) > 1e-3


def test_without_a_target_aware_query_they_are_the_same() -> None:
    """A standard parametrisation reads the last known token's content: the same whichever place comes next."""
    batch = TokenBatch.of(tokens(1, 5))
    objective = tiny_objective(Permutation(), TwoStream())
    states = []
    for order in ([0, 1, 2, 3, 4], [0, 1, 4, 3, 2]):
        streams = objective.prepare(batch, seed=0, step=0, plan=plan_of(order, given=0), scoring=True, num_targets=5)
        content_only = type(streams)(content=streams.content)
        states.append(objective.backbone(content_only).content[0, 1])  # token 1 has rank 2 in both
    torch.testing.assert_close(states[0], states[1], rtol=0, atol=1e-12)


def test_new_york_is_a_city() -> None:
    """DAE: p(New | is a city) p(York | is a city). PLM, New first: p(New | is a city) p(York | New, is a city)."""
    new, york = 0, 1
    batch = TokenBatch.of(tokens(1, 5, seed=1))
    other = TokenBatch.of(batch.ids.clone())
    other.ids[0, new] = (int(batch.ids[0, new]) - 9 + 1) % (VOCAB.size - 9) + 9  # another word for New
    target = torch.tensor([[True, True, False, False, False]])
    together = Plan.of(target.long(), target)
    new_first = Plan.of(torch.tensor([[1, 2, 0, 0, 0]]), target)

    dae = tiny_objective(Subset(), InPlace())
    torch.testing.assert_close(
        log_probabilities(dae, batch, together), log_probabilities(dae, other, together), rtol=0, atol=0
    )
    plm = tiny_objective(Permutation(), TwoStream())
    before, after = log_probabilities(plm, batch, new_first), log_probabilities(plm, other, new_first)
    torch.testing.assert_close(before[0, new], after[0, new], rtol=0, atol=0)
    assert float((before[0, york] - after[0, york]).abs().max()) > 1e-3, "York depends on New"


def test_a_causal_lm_is_one_order_of_many() -> None:
    """The identity order with all targets sees, at every place, what left to right does."""
    batch = TokenBatch.of(tokens(2, 6))
    plan = LeftToRight().sample(batch, generator=Draws(0, rows=2))
    identity = Plan.from_order(torch.arange(6).expand(2, -1))
    assert torch.equal(plan.time, identity.time)
    assert torch.equal(plan.target, identity.target)


def test_every_order_is_a_distribution_over_sequences() -> None:
    """The chain rule's product sums to one over all sequences of a small vocabulary, whatever the order."""
    words, length = 3, 3
    objective = tiny_objective(Permutation(), TwoStream())
    sequences = torch.cartesian_prod(*[torch.arange(9, 9 + words)] * length)
    batch = TokenBatch.of(sequences)
    for order in permutations(range(length)):
        plan = Plan.from_order(torch.tensor([order]).expand(len(sequences), -1))
        log_p = log_probabilities(objective, batch, plan)[:, :, 9 : 9 + words].log_softmax(-1)
        chosen = log_p.gather(2, (sequences - 9)[:, :, None]).sum((1, 2))
        torch.testing.assert_close(chosen.exp().sum(), torch.tensor(1.0, dtype=torch.float64), rtol=0, atol=1e-12)
