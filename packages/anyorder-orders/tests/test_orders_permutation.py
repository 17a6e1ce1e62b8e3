"""Orders against the released ``_local_perm``: its formula written plainly, and its recorded output."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anyorder.core import Draws, Plan, RecipeError, TokenBatch
from anyorder.orders import AllTargets, LastFraction, NgramSpans, Permutation, plan_from_ranks, repeated_ranks

RECORDED = np.load(Path(__file__).parent / "data" / "local_perm.npz")
GROUPS = sorted({name.split("/")[0] for name in RECORDED.files})


def may_attend(plan: Plan) -> torch.Tensor:
    """The L x L mask before the content stream's diagonal: targets read just before they are known."""
    reader = plan.time - plan.target.long()
    return plan.time[:, None, :] <= reader[:, :, None]


def official_may_attend(rank: list[int], masked: list[bool], functional: list[bool]) -> list[list[bool]]:
    """``_local_perm`` entry by entry: blocked iff s(i) <= r(j) and j is masked or functional."""
    length = len(rank)
    seen = []
    for i in range(length):
        context = not masked[i] and not functional[i]
        target = masked[i] and not functional[i]
        key_rank = -1 if context else rank[i]
        own = key_rank if target else key_rank + 1
        row = []
        for j in range(length):
            other = rank[j] if masked[j] or functional[j] else -1
            row.append(not (own <= other and (masked[j] or functional[j])))
        seen.append(row)
    return seen


@pytest.mark.parametrize("group", GROUPS)
def test_the_recorded_masks_follow_from_the_recorded_permutations(group: str) -> None:
    def recorded(name: str) -> torch.Tensor:
        return torch.from_numpy(RECORDED[f"{group}/{name}"].astype(np.int64))

    ids, perm = recorded("inputs"), recorded("perm")
    functional = (ids == 3) | (ids == 4)
    target = recorded("is_masked").bool() & ~functional
    rank = repeated_ranks(perm, length=ids.shape[1])
    assert torch.equal(rank, recorded("index"))
    plan = plan_from_ranks(TokenBatch.of(ids, fixed=functional), rank, target)
    assert torch.equal(may_attend(plan), recorded("perm_mask") == 0)
    assert torch.equal(plan.weight, recorded("target_mask").float())
    assert torch.equal(plan.target.long(), recorded("inputs_q"))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**31), blocks=st.integers(1, 4), size=st.integers(1, 8), share=st.floats(0, 1))
def test_masks_equal_the_released_formula(seed: int, blocks: int, size: int, share: float) -> None:
    length = blocks * size
    gen = torch.Generator().manual_seed(seed)
    functional = torch.rand(2, length, generator=gen) < 0.2
    masked = torch.rand(2, length, generator=gen) < share
    perm = torch.rand(2, size, generator=gen).argsort(1)
    rank = repeated_ranks(perm, length=length)
    batch = TokenBatch.of(torch.zeros(2, length, dtype=torch.long), fixed=functional)
    plan = plan_from_ranks(batch, rank, masked & ~functional)
    for row in range(2):
        for place in range(length):
            assert rank[row, place] == place // size * size + perm[row, place % size]
        expected = official_may_attend(rank[row].tolist(), masked[row].tolist(), functional[row].tolist())
        assert may_attend(plan)[row].tolist() == expected


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**31), first=st.integers(1, 9), second=st.integers(1, 9))
def test_two_halves_are_assembled_as_released(seed: int, first: int, second: int) -> None:
    length = first + second
    gen = torch.Generator().manual_seed(seed)
    functional = torch.rand(length, generator=gen) < 0.2
    masked = torch.rand(length, generator=gen) < 0.4
    ranks = [torch.randperm(n, generator=gen).tolist() for n in (first, second)]
    expected = torch.zeros(length, length, dtype=torch.bool)
    cuts = [slice(0, first), slice(first, length)]
    for rank, cut in zip(ranks, cuts, strict=True):
        inner = official_may_attend(rank, masked[cut].tolist(), functional[cut].tolist())
        expected[cut, cut] = torch.tensor(inner)
    expected[first:, :first] = True
    block = (torch.arange(length) >= first).long()[None]
    batch = TokenBatch.of(torch.zeros(1, length, dtype=torch.long), fixed=functional[None], block=block)
    # One order of the whole row, of which each half keeps its own part.
    rank = torch.tensor([ranks[0] + ranks[1]])
    rank = rank * 2 + block
    plan = plan_from_ranks(batch, rank, (masked & ~functional)[None]).within_blocks(batch)
    assert torch.equal(may_attend(plan)[0], expected)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), blocks=st.integers(1, 5), size=st.integers(1, 9))
def test_one_permutation_is_repeated_in_every_block_and_blocks_stay_left_to_right(
    seed: int, blocks: int, size: int
) -> None:
    batch = TokenBatch.of(torch.zeros(3, blocks * size, dtype=torch.long))
    for context in ("unordered", "ordered"):
        sampler = Permutation(targets=AllTargets(), perm_size=size, context=context)
        time = sampler.sample(batch, generator=Draws(seed, rows=3)).time.view(3, blocks, size)
        local = time - size * torch.arange(blocks)[:, None]
        assert torch.equal(local, local[:, :1].expand_as(local))
        assert torch.equal(local[:, 0].sort(1).values, torch.arange(1, size + 1).expand(3, size))


def test_an_ordered_context_comes_first_inside_each_block() -> None:
    batch = TokenBatch.of(torch.zeros(8, 32, dtype=torch.long))
    sampler = Permutation(targets=NgramSpans(k=3, unit="tokens"), perm_size=8, context="ordered")
    plan = sampler.sample(batch, generator=Draws(1, rows=8))
    for time, target in zip(plan.time.view(-1, 8), plan.target.view(-1, 8), strict=True):
        assert time.max() - time.min() == 7
        if target.any() and not target.all():
            assert time[target].min() > time[~target].max()
    assert (plan.time.view(8, 4, 8).amin(2).diff(dim=1) == 8).all()


def test_the_last_fraction_with_blocks_is_spread_over_the_row() -> None:
    batch = TokenBatch.of(torch.zeros(4000, 24, dtype=torch.long))
    sampler = Permutation(targets=LastFraction(k=4), perm_size=6)
    share = sampler.sample(batch, generator=Draws(2, rows=4000)).target.double().mean(0)
    assert (share - 0.25).abs().max() < 5 * (0.25 * 0.75 / 4000) ** 0.5


def test_random_orders_average_to_context_on_both_sides() -> None:
    rows, length = 20000, 9
    batch = TokenBatch.of(torch.zeros(rows, length, dtype=torch.long))
    plan = Permutation(targets=AllTargets()).sample(batch, generator=Draws(7, rows=rows))
    seen = may_attend(plan).double().mean(0)
    off = ~torch.eye(length, dtype=torch.bool)
    assert (seen[off] - 0.5).abs().max() < 5 * 0.5 / rows**0.5
    assert (seen.diagonal() == 0).all()


def test_every_order_of_four_tokens_is_as_likely() -> None:
    rows = 24000
    batch = TokenBatch.of(torch.zeros(rows, 4, dtype=torch.long))
    time = Permutation(targets=AllTargets()).sample(batch, generator=Draws(8, rows=rows)).time
    _, counts = time.unique(dim=0, return_counts=True)
    assert counts.shape == (24,)
    assert (counts - 1000).abs().max() < 5 * 1000**0.5


def test_the_cut_takes_the_last_of_the_order() -> None:
    batch = TokenBatch.of(torch.zeros(50, 20, dtype=torch.long))
    full = Permutation(targets=AllTargets()).sample(batch, generator=Draws(3, rows=50))
    cut = Permutation(targets=LastFraction(k=5)).sample(batch, generator=Draws(3, rows=50))
    assert torch.equal(cut.target, full.time > 16)
    assert torch.equal(cut.time, (full.time - 16).clamp(min=0))


@pytest.mark.parametrize("size", [3, 5, 13, 24])
def test_a_perm_size_that_does_not_divide_the_row_is_refused(size: int) -> None:
    sampler = Permutation(perm_size=size)
    with pytest.raises(
        RecipeError, match=rf"perm_size {size} does not divide the row length 16; allowed: 1, 2, 4, 8, 16"
    ):
        sampler.check(16)
    with pytest.raises(RecipeError, match="does not divide"):
        sampler.sample(TokenBatch.of(torch.zeros(1, 16, dtype=torch.long)), generator=Draws(0, rows=1))
    sampler.check(2 * size)
