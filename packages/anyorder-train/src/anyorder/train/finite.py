"""A loss or gradient that is not a finite number ends the run before it reaches the weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from torch import nn

from .failure import NonFiniteError

__all__ = ["require_finite"]


def require_finite(
    model: nn.Module,
    *,
    step: int,
    loss: float,
    means: Mapping[str, float],
    norm: float,
    last_saved: Path | None,
    precision: str,
) -> None:
    """Raise ``NonFiniteError`` that says what is not finite and what to try.

    Args:
        model: with the gradients of this step.
        means: the loss of each head.
        norm: of all gradients.
        last_saved: the newest checkpoint.
        precision: ``train.precision``.
    """
    if math.isfinite(loss) and math.isfinite(norm):
        return
    if math.isfinite(loss):
        names = [
            name
            for name, parameter in model.named_parameters()
            if parameter.grad is not None and not bool(parameter.grad.isfinite().all())
        ]
        what = f"the gradient is not finite ({', '.join(names[:3]) or 'its norm overflows'})"
    else:
        bad = [key for key, value in means.items() if not math.isfinite(value)]
        what = f"{', '.join(bad) or 'the loss'} is {loss}"
    saved = f"the last checkpoint is {last_saved}" if last_saved else "there is no checkpoint yet"
    remedy = "a smaller optimizer.lr, a longer schedule.warmup or a smaller train.clip"
    remedy += ", or train.precision fp32" if precision != "fp32" else ""
    raise NonFiniteError(f"step {step}: {what}; {saved}. Try {remedy}")
