"""The contract of order samplers passes right ones and catches wrong ones, each by the law it breaks."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from held_to import catches, keep

from anyorder.core import CONSECUTIVE, ONE_SHOT, Draws, Plan, TokenBatch
from anyorder.core.testing import OrderSamplerContract


class Sampler:
    """A right one: a random order, half of the free tokens as targets."""

    traits: frozenset[str] = frozenset()

    def num_targets(self, length: int) -> int:
        return length

    def sample(self, batch: TokenBatch, *, generator: Draws) -> Plan:
        rank = generator.permutation(batch.length) + 1
        target = generator.bernoulli(0.5, batch.length) & ~batch.fixed
        return Plan.of(torch.where(target, rank, 0), target)


class PredictsFixed(Sampler):
    def sample(self, batch: TokenBatch, *, generator: Draws) -> Plan:
        return super().sample(replace(batch, fixed=torch.zeros_like(batch.fixed)), generator=generator)


class PromisesTooFew(Sampler):
    def num_targets(self, length: int) -> int:
        return length // 4


class PredictsNothing(Sampler):
    def sample(self, batch: TokenBatch, *, generator: Draws) -> Plan:
        return Plan.of(torch.zeros_like(batch.ids), torch.zeros_like(batch.fixed))


class IgnoresTheKey(Sampler):
    def sample(self, batch: TokenBatch, *, generator: Draws) -> Plan:
        target = (torch.rand(batch.ids.shape) < 0.5) & ~batch.fixed
        return Plan.of(target.long(), target)


class MixesRows(Sampler):
    def sample(self, batch: TokenBatch, *, generator: Draws) -> Plan:
        rank = torch.randperm(batch.ids.numel(), generator=generator.torch()).view(batch.ids.shape) + 1
        target = ~batch.fixed
        return Plan.of(torch.where(target, rank, 0), target)


class WritesToTheBatch(Sampler):
    def sample(self, batch: TokenBatch, *, generator: Draws) -> Plan:
        plan = super().sample(batch, generator=generator)
        batch.ids[plan.target] = 6
        return plan


class SaysConsecutive(Sampler):
    traits = frozenset({CONSECUTIVE})


class SaysOneShot(Sampler):
    traits = frozenset({ONE_SHOT})


class NegativeTime(Sampler):
    def sample(self, batch: TokenBatch, *, generator: Draws) -> Plan:
        plan = super().sample(batch, generator=generator)
        return replace(plan, time=plan.time - 1)


class EndlessWeight(Sampler):
    def sample(self, batch: TokenBatch, *, generator: Draws) -> Plan:
        plan = super().sample(batch, generator=generator)
        return replace(plan, weight=plan.weight / plan.time.float().sub(1).clamp(min=0))


class OneTimeForAll(Sampler):
    """Not ordered: with the plan as it is, no leak; it only is no one-shot plan."""

    traits = frozenset({ONE_SHOT})

    def sample(self, batch: TokenBatch, *, generator: Draws) -> Plan:
        return Plan.of(torch.zeros_like(batch.ids), super().sample(batch, generator=generator).target)


@pytest.mark.parametrize(
    ("sampler", "law"),
    [
        (PredictsFixed, "fixed_tokens_and_padding_are_never_targets"),
        (PromisesTooFew, "no_more_targets_than_promised"),
        (PredictsNothing, "something_is_predicted"),
        (IgnoresTheKey, "same_generator_same_plan"),
        (MixesRows, "rows_are_independent"),
        (WritesToTheBatch, "the_batch_is_left_alone"),
        (SaysConsecutive, "traits_hold"),
        (SaysOneShot, "traits_hold"),
        (OneTimeForAll, "traits_hold"),
        (NegativeTime, "times_and_weights_are_sound"),
        (EndlessWeight, "times_and_weights_are_sound"),
    ],
)
def test_wrong_samplers_are_caught(sampler: type[Sampler], law: str) -> None:
    assert catches(law, OrderSamplerContract, sampler, lengths=(1, 7, 16), steps=1)


def test_a_right_sampler_passes() -> None:
    keep(OrderSamplerContract, Sampler)
