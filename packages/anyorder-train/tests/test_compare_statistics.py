"""Student's t against printed tables and the normal limit, and the interval of a mean by hand."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyorder.train.compare.statistics import Estimate, estimate, t_probability, t_quantile


@pytest.mark.parametrize(
    ("probability", "freedom", "known"),
    [  # tables of the t distribution, as printed in any textbook
        (0.975, 1, 12.706),
        (0.975, 2, 4.303),
        (0.975, 3, 3.182),
        (0.975, 4, 2.776),
        (0.975, 9, 2.262),
        (0.975, 30, 2.042),
        (0.975, 120, 1.980),
        (0.95, 5, 2.015),
        (0.995, 5, 4.032),
        (0.995, 10, 3.169),
    ],
)
def test_quantiles_of_the_printed_tables(probability: float, freedom: int, known: float) -> None:
    assert t_quantile(probability, freedom) == pytest.approx(known, abs=6e-4)


@given(st.floats(0.51, 0.9995), st.integers(1, 60))
def test_a_quantile_is_the_inverse_of_its_probability(probability: float, freedom: int) -> None:
    assert t_probability(t_quantile(probability, freedom), freedom) == pytest.approx(probability, abs=1e-9)


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 12])
def test_probability_is_the_integral_of_the_density(freedom: int) -> None:
    scale = math.gamma((freedom + 1) / 2) / math.sqrt(freedom * math.pi) / math.gamma(freedom / 2)

    def density(t: float) -> float:
        return scale * (1 + t * t / freedom) ** (-(freedom + 1) / 2)

    steps, end = 20_000, 2.5
    width = end / steps
    area = width * (sum(density(i * width) for i in range(1, steps)) + (density(0.0) + density(end)) / 2)
    assert t_probability(end, freedom) == pytest.approx(0.5 + area, abs=1e-7)


def test_many_degrees_of_freedom_come_to_the_normal() -> None:
    assert t_quantile(0.975, 5000) == pytest.approx(NormalDist().inv_cdf(0.975), abs=1e-3)


def test_the_interval_of_a_mean_by_hand() -> None:
    found = estimate([1.0, 2.0, 3.0, 6.0])
    assert found.mean == 3.0
    assert found.count == 4
    assert found.high == pytest.approx(3 + 3.18245 * math.sqrt(14 / 3) / 2, abs=1e-4)
    assert found.low == pytest.approx(6 - found.high)
    assert not found.excludes_zero
    assert estimate([-1.0, -1.1, -0.9]).excludes_zero


def test_one_value_has_no_interval() -> None:
    assert estimate([5.0]) == Estimate(mean=5.0)
    assert estimate([5.0]).half_width is None
    assert not estimate([5.0]).excludes_zero
