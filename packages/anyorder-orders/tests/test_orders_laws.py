"""Laws that every order sampler of this package keeps, over random batches."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import pad

from anyorder.core import Draws, OrderSampler, TokenBatch
from anyorder.orders import (
    AllTargets,
    LastFraction,
    LeftToRight,
    NgramSpans,
    Permutation,
    Prefix,
    Subset,
    TargetChoice,
)

CHOICES: list[TargetChoice] = [
    LastFraction(),
    LastFraction(k=2.5),
    AllTargets(),
    NgramSpans(),
    NgramSpans(k=3, unit="tokens", distribution="uniform"),
    NgramSpans(k=1, unit="tokens"),
    NgramSpans(k=2, max_n=3, placement="beside"),
]
SHARES = [  # samplers with one target in k, and k
    (Permutation(), 6),
    (Permutation(targets=NgramSpans()), 6),
    (Permutation(targets=NgramSpans(k=3.5, unit="tokens", placement="beside"), context="ordered"), 3.5),
    (Permutation(targets=NgramSpans(k=1, unit="tokens")), 1),
    (Subset(), 1 / 0.15),
    (Subset(rate=0.4, unit="words"), 1 / 0.4),
    (Subset(rate=0.3, unit="spans", max_n=3), 1 / 0.3),
    (Subset(rate=0.2, unit="word_spans"), 1 / 0.2),
    (Subset(rate=1.0), 1),
]
SAMPLERS: list[OrderSampler] = [
    LeftToRight(),
    Prefix(),
    Prefix(min_prefix=0.0, max_prefix=1.0),
    *(Permutation(targets=choice, context=context) for choice in CHOICES for context in ("unordered", "ordered")),
    *(sampler for sampler, _ in SHARES),
]


def random_batch(seed: int, *, rows: int, length: int, direction: bool = False) -> TokenBatch:
    """Rows with separators, words of a few tokens, several documents, and padding at either end."""
    gen = torch.Generator().manual_seed(seed)

    def chance(probability: float) -> torch.Tensor:
        return torch.rand(rows, length, generator=gen) < probability

    index = torch.arange(length)
    left = torch.randint(0, length // 3 + 1, (rows, 1), generator=gen) * (torch.rand(rows, 1, generator=gen) < 0.3)
    right = torch.randint(0, length // 2 + 1, (rows, 1), generator=gen) * (torch.rand(rows, 1, generator=gen) < 0.5)
    padding = (index < left) | (index >= length - right)
    doc = chance(0.05).cumsum(1).masked_fill(padding, -1)
    return TokenBatch.of(
        torch.randint(9, 50, (rows, length), generator=gen),
        doc=doc,
        fixed=padding | chance(0.1),
        word=chance(0.6).cumsum(1),
        direction=torch.randint(0, 2, (rows,), generator=gen) * 2 - 1 if direction else None,
    )


batches = st.builds(
    random_batch,
    st.integers(0, 2**31),
    rows=st.integers(1, 4),
    length=st.integers(1, 40),
    direction=st.booleans(),
)


@settings(max_examples=200, deadline=None)
@given(sampler=st.sampled_from(SAMPLERS), batch=batches, seed=st.integers(0, 1000))
def test_targets_are_free_tokens_and_no_more_than_promised(sampler: OrderSampler, batch: TokenBatch, seed: int) -> None:
    plan = sampler.sample(batch, generator=Draws(seed, rows=batch.rows))
    assert plan.time.shape == plan.target.shape == plan.weight.shape == batch.ids.shape
    assert plan.time.dtype == torch.int64
    assert plan.target.dtype == torch.bool
    assert not (plan.target & (batch.fixed | batch.padding)).any()
    assert (plan.time >= 0).all()
    assert (plan.time[plan.target] > 0).all()
    assert (plan.target.sum(1) <= sampler.num_targets(batch.length)).all()
    assert torch.equal(plan.weight, plan.target.float())


@pytest.mark.parametrize(("sampler", "k"), SHARES, ids=str)
@settings(max_examples=25, deadline=None)
@given(batch=batches, seed=st.integers(0, 1000))
def test_the_goal_is_met_exactly_where_enough_tokens_are_free(
    sampler: OrderSampler, k: float, batch: TokenBatch, seed: int
) -> None:
    plan = sampler.sample(batch, generator=Draws(seed, rows=batch.rows))
    for row in range(batch.rows):
        tokens = int((~batch.padding[row]).sum())
        free = int((~batch.fixed[row]).sum())
        goal = max(1, int(tokens / k + 0.5))
        assert int(plan.target[row].sum()) == min(goal, free)


@settings(max_examples=60, deadline=None)
@given(sampler=st.sampled_from(SAMPLERS), batch=batches, seed=st.integers(0, 1000))
def test_same_keys_give_the_same_plan_and_rows_do_not_depend_on_neighbours(
    sampler: OrderSampler, batch: TokenBatch, seed: int
) -> None:
    rows = [5 * row + 2 for row in range(batch.rows)]
    plan = sampler.sample(batch, generator=Draws(seed, 3, rows=rows))
    again = sampler.sample(batch, generator=Draws(seed, 3, rows=rows))
    assert torch.equal(plan.time, again.time)
    assert torch.equal(plan.target, again.target)
    for row, number in enumerate(rows):
        alone = sampler.sample(batch.map(lambda x, r=row: x[r : r + 1]), generator=Draws(seed, 3, rows=[number]))
        assert torch.equal(alone.time[0], plan.time[row])
        assert torch.equal(alone.target[0], plan.target[row])


@settings(max_examples=120, deadline=None)
@given(sampler=st.sampled_from(SAMPLERS), batch=batches, seed=st.integers(0, 1000), more=st.integers(1, 30))
def test_more_padding_on_the_right_changes_no_plan(
    sampler: OrderSampler, batch: TokenBatch, seed: int, more: int
) -> None:
    assert batch.word is not None
    longer = TokenBatch.of(
        pad(batch.ids, (0, more)),
        doc=pad(batch.doc, (0, more), value=-1),
        fixed=pad(batch.fixed, (0, more), value=True),
        word=pad(batch.word, (0, more)),
    )
    plan = sampler.sample(batch, generator=Draws(seed, rows=batch.rows))
    other = sampler.sample(longer, generator=Draws(seed, rows=batch.rows))
    real = ~batch.padding
    assert torch.equal(plan.target, other.target[:, : batch.length])
    assert torch.equal(plan.time[real], other.time[:, : batch.length][real])
    assert not other.target[:, batch.length :].any()


@settings(max_examples=40, deadline=None)
@given(batch=batches, seed=st.integers(0, 1000), choice=st.sampled_from(CHOICES))
def test_times_of_a_permutation_count_the_ranked_tokens(batch: TokenBatch, seed: int, choice: TargetChoice) -> None:
    unordered = Permutation(targets=choice).sample(batch, generator=Draws(seed, rows=batch.rows))
    ordered = Permutation(targets=choice, context="ordered").sample(batch, generator=Draws(seed, rows=batch.rows))
    assert torch.equal(unordered.target, ordered.target)
    for row in range(batch.rows):
        target, real = unordered.target[row], ~batch.padding[row]
        ranked = target | (batch.fixed[row] & real)
        times = unordered.time[row]
        assert sorted(times[ranked].tolist()) == list(range(1, int(ranked.sum()) + 1))
        assert (times[~ranked] == 0).all()
        times = ordered.time[row]
        assert sorted(times[real].tolist()) == list(range(1, int(real.sum()) + 1))
        given_tokens = real & ~target
        if target.any() and given_tokens.any():
            assert times[target].min() > times[given_tokens].max()
        # Both contexts order the targets alike.
        assert torch.equal(unordered.time[row][target].argsort(), ordered.time[row][target].argsort())


@settings(max_examples=40, deadline=None)
@given(batch=batches, seed=st.integers(0, 1000), low=st.floats(0, 1), high=st.floats(0, 1))
def test_a_prefix_is_given_and_the_rest_follows_token_by_token(
    batch: TokenBatch, seed: int, low: float, high: float
) -> None:
    low, high = min(low, high), max(low, high)
    plan = Prefix(min_prefix=low, max_prefix=high).sample(batch, generator=Draws(seed, rows=batch.rows))
    for row in range(batch.rows):
        real = ~batch.padding[row]
        times, count = plan.time[row][real], int(real.sum())
        length = int((times == 0).sum())
        assert low * count - 0.5 <= length <= high * count + 0.5 + 1e-9
        assert times.tolist() == [0] * length + list(range(1, count - length + 1))
        assert torch.equal(plan.target[row][real], (times > 0) & ~batch.fixed[row][real])


def test_left_to_right_counts_every_place_padding_included() -> None:
    batch = random_batch(3, rows=4, length=9)
    plan = LeftToRight().sample(batch, generator=Draws(0, rows=4))
    assert plan.time.tolist() == [list(range(1, 10))] * 4
    assert torch.equal(plan.target, ~batch.fixed)


def test_a_subset_is_predicted_in_one_shot() -> None:
    batch = random_batch(4, rows=4, length=60)
    plan = Subset(rate=0.3).sample(batch, generator=Draws(0, rows=4))
    assert torch.equal(plan.time, plan.target.long())
