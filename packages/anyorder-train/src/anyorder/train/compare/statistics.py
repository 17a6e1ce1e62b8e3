"""Means with intervals of Student's t, for a handful of seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

__all__ = ["Estimate", "estimate", "t_probability", "t_quantile"]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean and its 95 % interval; ``low`` and ``high`` are None where one value gives none."""

    mean: float
    low: float | None = None
    high: float | None = None
    count: int = 1

    @property
    def half_width(self) -> float | None:
        return None if self.high is None else self.high - self.mean

    @property
    def excludes_zero(self) -> bool:
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def estimate(values: Sequence[float], *, level: float = 0.95) -> Estimate:
    """The mean of independent values with its t interval, ``mean ± t * s / sqrt(n)``."""
    count = len(values)
    mean = math.fsum(values) / count
    if count < 2:
        return Estimate(mean=mean)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1))
    half = t_quantile((1 + level) / 2, count - 1) * deviation / math.sqrt(count)
    return Estimate(mean=mean, low=mean - half, high=mean + half, count=count)


def t_probability(t: float, freedom: int) -> float:
    """``P(T <= t)`` for a whole number of degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine = math.cos(angle) ** 2
    term = total = math.cos(angle) if freedom % 2 else 1.0
    for number in range(3 if freedom % 2 else 2, freedom - 1, 2):
        term *= cosine * (number - 1) / number
        total += term
    if freedom % 2 == 0:
        within = math.sin(angle) * total
    else:
        within = 2 / math.pi * (angle + (math.sin(angle) * total if freedom > 1 else 0.0))
    return (1 + within) / 2


@cache
def t_quantile(probability: float, freedom: int) -> float:
    """The ``t`` with ``P(T <= t) = probability``, for a probability of at least one half."""
    low, high = 0.0, 1.0
    while t_probability(high, freedom) < probability:
        high *= 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if t_probability(middle, freedom) < probability else (low, middle)
    return high
