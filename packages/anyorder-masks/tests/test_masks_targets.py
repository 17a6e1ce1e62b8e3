"""Collecting targets, against a loop."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anyorder.core import DataError
from anyorder.masks import take_targets


@given(
    rows=st.lists(st.lists(st.booleans(), min_size=9, max_size=9), min_size=1, max_size=4),
    spare=st.integers(0, 12),
)
def test_targets_are_taken_in_order(rows: list[list[bool]], spare: int) -> None:
    most = max(map(sum, rows)) + spare  # more places than tokens too
    index, valid = take_targets(torch.tensor(rows), num_targets=most)
    assert index.shape == valid.shape == (len(rows), most)
    for row, target in enumerate(rows):
        places = [place for place, is_target in enumerate(target) if is_target]
        assert index[row, valid[row]].tolist() == places
        assert valid[row].tolist() == [True] * len(places) + [False] * (most - len(places))
        assert not index[row, ~valid[row]].any()


def test_no_places_for_no_targets() -> None:
    index, valid = take_targets(torch.zeros(2, 5, dtype=torch.bool), num_targets=0)
    assert index.shape == valid.shape == (2, 0)


def test_a_row_over_its_promise_is_named() -> None:
    target = torch.tensor([[True, False, False], [True, True, True]])
    with pytest.raises(DataError, match=r"row 1 has 3 targets, but the readout has 2 places.*num_targets"):
        take_targets(target, num_targets=2)
