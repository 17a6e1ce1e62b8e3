"""Checks of settings, each with one line for the person who wrote the recipe."""

from __future__ import annotations

import math
from typing import get_args

from anyorder.core import RecipeError, did_you_mean


def require_at_least(name: str, value: float, least: int) -> None:
    if not (math.isfinite(value) and value >= least):
        raise RecipeError(f"{name} is {value}; it must be {least} or more", path=name)


def require_within(name: str, value: float, low: float, high: float, *, open_low: bool = False) -> None:
    if not (low < value <= high if open_low else low <= value <= high):
        bound = f"above {low:g} and at most {high:g}" if open_low else f"between {low:g} and {high:g}"
        raise RecipeError(f"{name} is {value}; it must be {bound}", path=name)


def require_one_of(name: str, value: str, literal: object) -> None:
    """``literal``: the ``Literal`` type of the allowed words."""
    allowed = get_args(literal)
    if value not in allowed:
        words = ", ".join(repr(word) for word in allowed)
        raise RecipeError(f"{name} is {value!r}; allowed: {words}{did_you_mean(str(value), allowed)}", path=name)
