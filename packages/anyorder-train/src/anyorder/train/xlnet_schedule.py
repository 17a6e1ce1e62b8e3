"""The official learning rate schedule, which counts the steps before a step."""

from __future__ import annotations

from .schedule import Schedule

__all__ = ["XLNetSchedule"]


class XLNetSchedule(Schedule):
    """:class:`Schedule` as ``model_utils.py`` ``get_train_op`` has it: one step later.

    Step ``t`` has the factor that :class:`Schedule` gives step ``t - 1``: with a warm-up the first update is empty, but
    for the moments of Adam, and the last step does not quite reach ``min_ratio``, which later steps would keep.
    ``decay`` ``linear`` is the official ``poly``, ``cosine`` is ``cos``.
    """

    def factor(self, step: int, *, steps: int) -> float:
        """The factor of step ``step``, the first being 1; past ``steps`` the last factor is kept."""
        before = step - 1
        if before == 0:
            return 0.0 if self.warmup_steps(steps) else 1.0
        return super().factor(min(before, steps), steps=steps)
