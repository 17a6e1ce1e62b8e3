"""Dropout drops at its rate, keeps the mean, and passes gradient where it kept."""

from __future__ import annotations

import pytest
import torch

from anyorder.core import Dropout, draw_bits, survivors


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.5])
def test_rate_and_independence(rate: float) -> None:
    torch.manual_seed(0)
    keep = survivors(draw_bits(torch.Size((1000, 1001))), rate, dtype=torch.float64)
    error = (rate * (1 - rate) / keep.numel()) ** 0.5
    assert abs(float(keep.mean()) - (1 - rate)) < 5 * error + 1 / 65536
    both = float((keep[:, 1:] * keep[:, :-1]).mean())  # neighbours share a draw, and no bit of it
    assert abs(both - (1 - rate) ** 2) < 5 * error + 2 / 65536


def test_output_and_gradient_are_scaled_survivors() -> None:
    torch.manual_seed(0)
    states = torch.randn(50, 7, dtype=torch.float64, requires_grad=True)
    layer = Dropout(0.3).train()
    out = layer(states)
    kept = out != 0
    torch.testing.assert_close(out, states * kept / 0.7)
    out.sum().backward()
    torch.testing.assert_close(states.grad, kept / 0.7, check_dtype=False)


def test_the_same_seed_drops_the_same_and_evaluation_drops_nothing() -> None:
    states = torch.ones(100)
    layer = Dropout(0.5)
    torch.manual_seed(3)
    first = layer(states)
    torch.manual_seed(3)
    assert torch.equal(layer(states), first)
    assert layer.eval()(states) is states


def test_all_may_be_dropped() -> None:
    assert not Dropout(1.0)(torch.ones(64)).any()
