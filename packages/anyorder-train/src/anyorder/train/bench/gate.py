"""No figure without parity: what a benchmark checks before it measures anything."""

from __future__ import annotations

from ..failure import TrainingError

__all__ = ["DisagreementError", "require_agreement"]


class DisagreementError(TrainingError):
    """What would be timed does not compute the same as its peer, so that no figure would mean anything."""


def require_agreement(what: str, difference: float, *, limit: float) -> float:
    """Return ``difference``. Raises ``DisagreementError`` where it is not under ``limit``, NaN included."""
    if not difference < limit:
        raise DisagreementError(
            f"no report: {what} differ by {difference:.3g} on the same inputs and weights, where at most {limit:.0e} "
            "is allowed; run the parity tests (./dev parity-table), mend what they show, and measure again"
        )
    return difference
