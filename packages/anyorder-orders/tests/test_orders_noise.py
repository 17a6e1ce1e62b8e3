"""Noise levels, cuts and mixtures: the laws of their weights and of their randomness."""

from __future__ import annotations

import math

import pytest
import torch

from anyorder.core import Draws, OrderSampler, Plan, RecipeError, TokenBatch
from anyorder.orders import (
    AllTargets,
    AnyOrderCut,
    LastFraction,
    LeftToRight,
    Mixture,
    NgramSpans,
    NoiseLevel,
    Permutation,
    RightToLeft,
    SpanBlocks,
    Subset,
)

ROWS, LENGTH = 4096, 12


def sample(order: OrderSampler, *, rows: int = ROWS, length: int = LENGTH, step: int = 0) -> Plan:
    batch = TokenBatch.of(torch.arange(rows * length).view(rows, length))
    return order.sample(batch, generator=Draws(3, step, rows=rows, purpose="order"))


@pytest.mark.parametrize(
    "order",
    [
        NoiseLevel(min_level=1e-3),
        NoiseLevel(schedule="cosine"),
        NoiseLevel(antithetic=False, min_level=0.05),
        NoiseLevel(block_size=5),
        AnyOrderCut(),
    ],
)
def test_a_bound_weighs_every_token_once_on_average(order: OrderSampler) -> None:
    """So that the weighted sum over hidden tokens, divided by all tokens, is nats a token."""
    total = torch.zeros(LENGTH, dtype=torch.float64)
    steps = 20
    for step in range(steps):
        plan = sample(order, step=step)
        assert plan.count is not None
        assert (plan.count == LENGTH).all()
        total += torch.where(plan.target, plan.weight, 0.0).double().sum(dim=0)
    mean = total / (steps * ROWS)
    # Under min_level nothing is drawn: that much of the integral of p'(t) is left out, and it is spread over the rest.
    assert mean.tolist() == pytest.approx([1.0] * LENGTH, abs=0.03)


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_weight_is_the_rate_of_hiding_over_its_chance(schedule: str) -> None:
    level = torch.linspace(0.01, 0.99, 50, dtype=torch.float64).requires_grad_()
    chance = level * 1.0 if schedule == "linear" else 1 - torch.cos(level * math.pi / 2)
    (rate,) = torch.autograd.grad(chance.sum(), level)
    hidden, weight = NoiseLevel(schedule=schedule)._hide(level.detach())
    torch.testing.assert_close(hidden, chance.detach(), rtol=0, atol=1e-12)
    torch.testing.assert_close(weight, rate / chance.detach(), rtol=1e-9, atol=0)


def test_antithetic_levels_are_even_within_a_batch_and_uniform_over_batches() -> None:
    rows, steps = 16, 300
    levels = torch.stack(
        [NoiseLevel()._levels(TokenBatch.of(torch.zeros(rows, 2, dtype=torch.long)), generator=draws)[:, 0]
         for draws in (Draws(1, step, rows=rows) for step in range(steps))]
    )  # fmt: skip
    means = levels.mean(dim=1)
    assert float(means.std()) < 0.5 * math.sqrt(1 / 12 / rows), "hardly evener than independent levels"
    assert float(levels[:, 5].mean()) == pytest.approx(0.5, abs=0.05)
    assert float(levels[:, 5].std()) == pytest.approx(math.sqrt(1 / 12), abs=0.03)
    gaps = levels.sort(dim=1).values.diff(dim=1)
    assert float(gaps.max()) < 3 / rows


def test_antithetic_levels_do_not_depend_on_who_else_is_in_the_batch() -> None:
    whole, part = Draws(1, 7, rows=16).spread(), Draws(1, 7, rows=[9, 3]).spread()
    assert torch.equal(whole[[9, 3]], part)


def test_blocks_of_noise_come_one_after_another_each_with_its_own_level() -> None:
    plan = sample(NoiseLevel(block_size=4, antithetic=False), length=12)
    assert plan.time[0].tolist() == [1] * 4 + [2] * 4 + [3] * 4
    hidden = plan.target.view(ROWS, 3, 4).float().mean(dim=2)  # [row, block]
    assert abs(float(torch.corrcoef(hidden.T)[0, 1])) < 0.05
    within = plan.target[:, :2].float()
    assert float(torch.corrcoef(within.T)[0, 1]) > 0.2, "one level a block makes its tokens alike"


def test_a_cut_has_one_target_to_all_of_them_equally_often() -> None:
    plan = sample(AnyOrderCut())
    number = plan.target.sum(dim=1)
    counts = torch.bincount(number, minlength=LENGTH + 1)
    assert int(counts[0]) == 0
    assert (counts[1:] / ROWS).tolist() == pytest.approx([1 / LENGTH] * LENGTH, abs=0.02)
    assert torch.allclose(plan.weight.sum(dim=1), torch.tensor(float(LENGTH)))


def test_a_mixture_by_row_is_its_parts() -> None:
    parts = [Permutation(targets=AllTargets()), LeftToRight()]
    plan = sample(Mixture(parts=parts, probabilities=[9, 1]), rows=2000)
    ordered = (plan.time == torch.arange(1, LENGTH + 1)).all(dim=1)
    assert float(ordered.float().mean()) == pytest.approx(0.1, abs=0.02)
    assert plan.count is None


def test_a_mixture_by_batch_draws_one_part_on_every_rank() -> None:
    mixture = Mixture(parts=[LeftToRight(), RightToLeft()], probabilities=[1, 3], per="batch")
    backward = 0
    for step in range(400):
        batch = TokenBatch.of(torch.zeros(6, 4, dtype=torch.long))
        plan = mixture.sample(batch, generator=Draws(3, step, rows=6))
        other = mixture.sample(batch, generator=Draws(3, step, rows=range(6, 12)))
        assert len(plan.time.unique(dim=0)) == 1
        assert torch.equal(plan.time, other.time)
        backward += int(plan.time[0, 0] == 4)
    assert backward / 400 == pytest.approx(0.75, abs=0.07)


def test_a_mixture_says_what_each_row_is_divided_by() -> None:
    plan = sample(Mixture(parts=[NoiseLevel(), Subset(rate=0.25)], probabilities=[1, 1]), rows=200)
    assert plan.count is not None
    assert sorted(plan.count.unique().tolist()) == [3.0, float(LENGTH)]


def test_mixture_traits_and_room_are_those_of_all_parts() -> None:
    mixture = Mixture(parts=[AnyOrderCut(), Subset(rate=0.1)], probabilities=[1, 1])
    assert mixture.traits == {"one_shot"}
    assert mixture.num_targets(40) == 40
    assert Mixture(parts=[LeftToRight(), Permutation()], probabilities=[1, 1]).traits == frozenset()
    with pytest.raises(RecipeError, match="perm_size 5 does not divide"):
        Mixture(parts=[Permutation(perm_size=5)], probabilities=[1]).check(12)


def test_spans_are_read_from_left_to_right_and_in_random_order() -> None:
    plan = sample(SpanBlocks(targets=NgramSpans(k=2, max_n=4, unit="tokens")), length=24, rows=300)
    orders = set()
    for time, target in zip(plan.time.tolist(), plan.target.tolist(), strict=True):
        first = []
        for place in range(24):
            if target[place] and place and target[place - 1]:
                assert time[place] == time[place - 1] + 1, "inside a span, one after another"
            elif target[place]:
                first.append(time[place])
            else:
                assert time[place] == 0
        orders.add(first[0] < first[-1] if len(first) > 1 else None)
    assert {True, False} <= orders


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: NoiseLevel(min_level=0.0), "min_level: min_level is 0.0; it must be above 0 and at most 1"),
        (lambda: NoiseLevel(schedule="line"), "did you mean 'linear'?"),
        (lambda: NoiseLevel(block_size=0), "block_size is 0; it must be 1 or more"),
        (lambda: Mixture(parts=[], probabilities=[]), "parts is empty"),
        (lambda: Mixture(parts=[LeftToRight()], probabilities=[1, 2]), "probabilities are 2, and there are 1 parts"),
        (lambda: Mixture(parts=[LeftToRight()], probabilities=[0]), "each must be above 0"),
        (lambda: Subset(context="before"), "allowed: 'given', 'together'"),
    ],
)
def test_a_wrong_setting_gives_one_clear_line(build: object, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        build()  # type: ignore[operator]
    assert message in str(caught.value)


def test_a_cloze_in_reading_order_keeps_the_order() -> None:
    plan = sample(LeftToRight(targets=LastFraction(k=4)), rows=5)
    assert (plan.time == torch.arange(1, LENGTH + 1)).all()
    assert (plan.target.sum(dim=1) == 3).all()
