"""The tokens that the likelihoods of a text are taken of: the same for all of them, and for every model."""

from __future__ import annotations

from jaxtyping import Bool
from torch import Tensor

from anyorder.core import TokenBatch

from .hidden import predictable

__all__ = ["second_half"]


def second_half(windows: TokenBatch) -> Bool[Tensor, "N L"]:
    """The tokens of the second half of every window, whose first half is context."""
    hidden = predictable(windows)
    hidden[:, : windows.length // 2] = False
    return hidden
