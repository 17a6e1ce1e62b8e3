"""The learning rate of each step: linear warm-up, then decay."""

from __future__ import annotations

import math
from typing import Literal

from anyorder.core import RecipeError

__all__ = ["Schedule"]

Decay = Literal["linear", "cosine", "constant"]


class Schedule:
    """What the peak learning rate is multiplied by, a pure function of the step.

    With ``W`` warm-up steps of ``T`` in all, step ``t`` (the first is 1) has the factor ``t / W`` up to ``W`` and then
    ``min_ratio + (1 - min_ratio) * f((t - W) / (T - W))``, where ``f(x)`` is ``1 - x`` (linear),
    ``(1 + cos(pi x)) / 2`` (cosine) or 1 (constant, for which ``min_ratio`` has no effect). So step ``W`` has the peak
    and step ``T`` has ``min_ratio`` (XLNet's schedule, ``model_utils.py`` ``get_train_op``, is linear; it counts steps
    from 0, which makes its first update empty).

    Args:
        warmup: number of warm-up steps, or a fraction of all steps where it is under 1.
        decay: the shape after the warm-up.
        min_ratio: factor of the last step.

    Raises:
        RecipeError: a value out of range.
    """

    def __init__(self, *, warmup: float = 0.05, decay: Decay = "linear", min_ratio: float = 0.0) -> None:
        if warmup < 0 or (warmup >= 1 and warmup != int(warmup)):
            raise RecipeError(
                f"warmup is {warmup}; it must be a whole number of steps, or a fraction of all steps under 1",
                path="schedule.warmup",
            )
        if decay not in ("linear", "cosine", "constant"):
            raise RecipeError(
                f"decay is {decay!r}; allowed are 'linear', 'cosine' and 'constant'", path="schedule.decay"
            )
        if not 0 <= min_ratio <= 1:
            raise RecipeError(f"min_ratio is {min_ratio}; it must be from 0 to 1", path="schedule.min_ratio")
        self.warmup, self.decay, self.min_ratio = warmup, decay, min_ratio

    def warmup_steps(self, steps: int) -> int:
        """Number of warm-up steps of a run of ``steps``."""
        return int(self.warmup) if self.warmup >= 1 else round(self.warmup * steps)

    def check(self, steps: int) -> None:
        """Raise ``RecipeError`` where the warm-up is longer than the run."""
        if self.warmup_steps(steps) > steps:
            raise RecipeError(
                f"warmup is {self.warmup:g} steps and the run has {steps}: the peak would never be reached; "
                "use fewer, or a fraction such as 0.05",
                path="schedule.warmup",
            )

    def factor(self, step: int, *, steps: int) -> float:
        """The factor of step ``step``, 1 to ``steps``."""
        warmup = self.warmup_steps(steps)
        if step <= warmup:
            return step / warmup
        past = (step - warmup) / (steps - warmup)
        shape = {"linear": 1 - past, "cosine": (1 + math.cos(math.pi * past)) / 2, "constant": 1.0}[self.decay]
        return self.min_ratio + (1 - self.min_ratio) * shape
