"""Targets that come with the data, and orders of visible blocks."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from anyorder.core import DataError, Draws, RecipeError, TokenBatch
from anyorder.orders import AllTargets, Permutation, Recorded


def test_recorded_targets_are_taken_without_the_fixed_ones() -> None:
    ids = torch.arange(10).expand(2, 10)
    fixed, target = ids == 3, (ids == 3) | (ids == 5) | (ids == 9)
    doc = torch.where(ids == 9, -1, 0)
    batch = TokenBatch.of(ids, doc=doc, fixed=fixed | (doc < 0), target=target)
    plan = Permutation(targets=Recorded(num_predict=4)).sample(batch, generator=Draws(0, rows=2))
    assert plan.target.tolist() == [[place == 5 for place in range(10)]] * 2
    assert Recorded(num_predict=4).num_targets(10) == 4
    assert Recorded(num_predict=40).num_targets(10) == Recorded().num_targets(10) == 10


def test_data_without_targets_is_refused() -> None:
    batch = TokenBatch.of(torch.zeros(1, 4, dtype=torch.long))
    with pytest.raises(DataError, match="this data chose none: use data of type 'xlnet_records'"):
        Permutation(targets=Recorded()).sample(batch, generator=Draws(0, rows=1))
    with pytest.raises(RecipeError, match="num_predict is 0"):
        Recorded(num_predict=0)


def test_each_visible_block_has_a_permutation_of_its_own() -> None:
    block = (torch.arange(16) >= 8).long().expand(64, -1)
    batch = TokenBatch.of(torch.zeros(64, 16, dtype=torch.long), block=block)
    order = Permutation(targets=AllTargets(), perm_size=4)
    plan = order.sample(batch, generator=Draws(3, rows=64)).within_blocks(batch)
    first, again, second, last = plan.time.view(64, 4, 4).unbind(1)
    assert torch.equal(again - first, torch.full_like(first, 4))
    assert torch.equal(last - second, torch.full_like(first, 4))
    ranks = [(part - part.amin(dim=1, keepdim=True)) for part in (first, second)]
    same = (ranks[0] == ranks[1]).all(dim=1).float().mean()
    assert same < 0.25  # of 24 permutations
    alone = order.sample(replace(batch, block=None), generator=Draws(3, rows=64)).time.view(64, 4, 4)
    assert torch.equal(alone.diff(dim=1), torch.full((64, 3, 4), 4))
