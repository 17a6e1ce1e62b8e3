"""The yardsticks of a comparison, all asked of one model."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Int
from torch import Tensor

from anyorder.core import DataError, RecipeError, TokenBatch, did_you_mean

from ..objective import Objective
from .any_order import AnyOrder
from .cloze import Cloze
from .diffusion_bound import DiffusionBound
from .left_to_right import LeftToRight
from .pseudo_likelihood import PseudoLikelihood
from .span_recovery import SpanRecovery, SpanRecoveryStepwise
from .yardstick import Measurement, Yardstick

__all__ = ["ALL_YARDSTICKS", "YARDSTICKS", "choose_yardsticks", "measure_all"]

YARDSTICKS: tuple[Yardstick, ...] = (Cloze(), SpanRecovery(), SpanRecoveryStepwise(), LeftToRight())
"""What every model is asked unless told otherwise: quick."""

ALL_YARDSTICKS: tuple[Yardstick, ...] = (*YARDSTICKS, AnyOrder(), DiffusionBound(), PseudoLikelihood())
"""These take as many passes as a window has tokens, or more."""


def choose_yardsticks(text: str) -> tuple[Yardstick, ...]:
    """Yardsticks from a setting: ``basic``, ``all``, or names divided by commas.

    Raises:
        RecipeError: no yardstick has such a name.
    """
    suites = {"basic": YARDSTICKS, "all": ALL_YARDSTICKS}
    if text in suites:
        return suites[text]
    known = {yardstick.name: yardstick for yardstick in ALL_YARDSTICKS}
    names = dict.fromkeys(name.strip() for name in text.split(","))
    for name in names:
        if name not in known:
            near = did_you_mean(name, [*suites, *known])
            raise RecipeError(f"no yardstick is called {name!r} (there are {', '.join([*suites, *known])}){near}")
    return tuple(yardstick for name, yardstick in known.items() if name in names)


def measure_all(
    objective: Objective,
    windows: TokenBatch,
    *,
    piece_bytes: Int[Tensor, " V"],
    yardsticks: Sequence[Yardstick] = YARDSTICKS,
    seed: int = 0,
) -> dict[str, Measurement]:
    """Every yardstick's measurement by name, in the order given.

    Raises:
        DataError: there is nothing to measure on.
    """
    if windows.rows == 0:
        raise DataError("there is no held-out text to measure on: the validation split is shorter than one window")
    return {
        yardstick.name: yardstick.measure(objective, windows, piece_bytes=piece_bytes, seed=seed)
        for yardstick in yardsticks
    }
