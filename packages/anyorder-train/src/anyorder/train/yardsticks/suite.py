"""The yardsticks of a comparison, all asked of one model."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Int
from torch import Tensor

from anyorder.core import DataError, TokenBatch

from ..objective import Objective
from .cloze import Cloze
from .left_to_right import LeftToRight
from .span_recovery import SpanRecovery, SpanRecoveryStepwise
from .yardstick import Measurement, Yardstick

__all__ = ["YARDSTICKS", "measure_all"]

YARDSTICKS: tuple[Yardstick, ...] = (Cloze(), SpanRecovery(), SpanRecoveryStepwise(), LeftToRight())


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
