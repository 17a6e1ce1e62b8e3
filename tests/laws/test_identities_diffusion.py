"""Masked diffusion, any-order prediction at random cuts, and the mean over all orders are one and the same loss."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations, permutations

import numpy as np
import pytest
import torch
from torch import Tensor

from anyorder.core import OrderSampler, Plan, TokenBatch
from anyorder.masks import InPlace, TwoStream
from anyorder.orders import AnyOrderCut, NoiseLevel, Permutation, Subset
from anyorder.train.objective import Objective

from .model_parts import tiny_objective, tokens


def weighted_loss(objective: Objective, ids: Tensor, target: Tensor, weight: Tensor, time: Tensor | None = None):
    """What the objective's own ``forward`` adds up over rows that are all the same text under different plans."""
    batch = TokenBatch.of(ids.expand(len(target), -1))
    plan = Plan.of(target.long() if time is None else time, target, weight)
    streams = objective.prepare(batch, seed=0, step=0, plan=plan, num_targets=ids.shape[1], scoring=True)
    with torch.no_grad():
        return objective(streams).losses["loss"].loss_sum


def mask_sets(length: int) -> Iterator[list[int]]:
    for count in range(1, length + 1):
        yield from (list(places) for places in combinations(range(length), count))


def over_all_orders(objective: Objective, ids: Tensor) -> Tensor:
    """``E_sigma sum_r -log p(x_sigma(r) | x_sigma(<r))``: every order, every rank, a plan of its own."""
    length = ids.shape[1]
    target, weight = [], []
    for order in permutations(range(length)):
        for rank in range(length):
            hidden = torch.zeros(length, dtype=torch.bool)
            hidden[list(order[rank:])] = True
            target.append(hidden)
            weight.append(torch.zeros(length, dtype=torch.float64))
            weight[-1][order[rank]] = 1 / math.factorial(length)
    return weighted_loss(objective, ids, torch.stack(target), torch.stack(weight))


def at_random_cuts(objective: Objective, ids: Tensor) -> Tensor:
    """OA-ARDM: ``E_n E_M (L / n) sum_{i in M} -log p(x_i | x_not M)``, ``n`` uniform, ``M`` any set of ``n``."""
    length = ids.shape[1]
    target, weight = [], []
    for places in mask_sets(length):
        hidden = torch.zeros(length, dtype=torch.bool)
        hidden[places] = True
        chance = 1 / length / math.comb(length, len(places))
        target.append(hidden)
        weight.append(hidden.double() * chance * length / len(places))
    return weighted_loss(objective, ids, torch.stack(target), torch.stack(weight))


def at_noise_levels(objective: Objective, ids: Tensor) -> Tensor:
    """MDLM, linear schedule: ``E_t (1 / t) sum_{i in M} -log p(x_i | x_not M)``, each token masked with chance ``t``.

    The integrand is a polynomial in ``t`` of degree below ``L``, so ``L`` Gauss-Legendre nodes integrate it exactly.
    """
    length = ids.shape[1]
    nodes, shares = np.polynomial.legendre.leggauss(length)
    target, weight = [], []
    for node, share in zip(nodes, shares, strict=True):
        level = (node + 1) / 2
        for places in mask_sets(length):
            hidden = torch.zeros(length, dtype=torch.bool)
            hidden[places] = True
            chance = share / 2 * level ** len(places) * (1 - level) ** (length - len(places))
            target.append(hidden)
            weight.append(hidden.double() * chance / level)
    return weighted_loss(objective, ids, torch.stack(target), torch.stack(weight))


@pytest.mark.parametrize("length", [1, 2, 4, 6])
def test_masked_diffusion_is_the_any_order_loss_in_expectation(length: int) -> None:
    objective = tiny_objective(Subset(), InPlace())
    ids = tokens(1, length, seed=length)
    orders = over_all_orders(objective, ids)
    assert float(orders) > length, "a model of random weights is no oracle"
    torch.testing.assert_close(at_random_cuts(objective, ids), orders, rtol=0, atol=1e-11)
    torch.testing.assert_close(at_noise_levels(objective, ids), orders, rtol=0, atol=1e-11)


def test_another_weight_is_another_loss() -> None:
    """BERT's weight of 1 a target is not the likelihood's: the identity above is not one of any weighted mean."""
    objective = tiny_objective(Subset(), InPlace())
    ids = tokens(1, 4)
    sets = list(mask_sets(4))
    target = torch.zeros(len(sets), 4, dtype=torch.bool)
    for row, places in enumerate(sets):
        target[row, places] = True
    plain = weighted_loss(objective, ids, target, target.double() / len(sets))
    assert abs(float(plain - over_all_orders(objective, ids))) > 0.1


def test_two_streams_with_an_unordered_context_have_the_same_three_losses() -> None:
    """One target set at a time, given tokens seeing each other: the two-stream model is then an encoder too."""
    objective = tiny_objective(Permutation(), TwoStream())
    ids = tokens(1, 5)
    orders = over_all_orders(objective, ids)
    torch.testing.assert_close(at_random_cuts(objective, ids), orders, rtol=0, atol=1e-11)
    torch.testing.assert_close(at_noise_levels(objective, ids), orders, rtol=0, atol=1e-11)


def test_the_chain_rule_in_one_pass_is_another_model_than_the_encoder() -> None:
    """In one pass known tokens never look again at what became known after them, so what was known first matters."""
    objective = tiny_objective(Permutation(), TwoStream())
    ids = tokens(1, 4)
    orders = torch.tensor(list(permutations(range(4))))
    plans = Plan.from_order(orders)
    weight = torch.full(plans.target.shape, 1 / len(orders), dtype=torch.float64)
    one_pass = weighted_loss(objective, ids, plans.target, weight, time=plans.time)
    assert abs(float(one_pass - over_all_orders(objective, ids))) > 1e-3


@pytest.mark.parametrize(
    "order",
    [
        AnyOrderCut(),
        NoiseLevel(antithetic=False),
        NoiseLevel(),
        NoiseLevel(schedule="cosine"),
    ],
    ids=["any_order_cut", "linear", "antithetic", "cosine"],
)
def test_the_samplers_draw_unbiased_estimates_of_it(order: OrderSampler) -> None:
    """The mean over many draws comes to the exact loss within four standard errors, whatever the schedule."""
    objective = tiny_objective(order, InPlace())
    ids = tokens(1, 5)
    exact = float(over_all_orders(objective, ids))
    batch = TokenBatch.of(ids.expand(6000, -1))
    streams = objective.prepare(batch, seed=3, step=0, scoring=True)
    readout = streams.readouts["loss"]
    with torch.no_grad():
        loss = objective(streams).losses["loss"]
    nats = (loss.per_target * readout.weight.double()).sum(1)
    error = float(nats.std()) / math.sqrt(len(nats))
    assert 0 < error < 0.02 * exact, "the test can tell a loss that is a tenth off"
    # The least noise level, 1e-3, leaves out a thousandth of the integral.
    assert abs(float(nats.mean()) - exact) < 4 * error + 1e-3 * exact
    assert float(loss.weight_sum) == 5 * len(nats), "the step's mean is a token's"


def test_without_its_weight_noise_is_no_likelihood() -> None:
    objective = tiny_objective(NoiseLevel(weight="one"), InPlace())
    ids = tokens(1, 5)
    streams = objective.prepare(TokenBatch.of(ids.expand(2000, -1)), seed=3, step=0, scoring=True)
    with torch.no_grad():
        nats = objective(streams).losses["loss"].loss_sum / 2000
    assert float(nats) < 0.8 * float(over_all_orders(objective, ids))
