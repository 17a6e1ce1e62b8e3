"""The seam between an order and the choice of what it predicts."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from jaxtyping import Bool, Int
from torch import Tensor

from anyorder.core import Draws, TokenBatch


@runtime_checkable
class TargetChoice(Protocol):
    """Chooses the tokens that an order predicts."""

    def num_targets(self, length: int) -> int:
        """The most targets that a row of this length can get."""
        ...

    def choose(self, batch: TokenBatch, order: Int[Tensor, "B L"], *, generator: Draws) -> Bool[Tensor, "B L"]:
        """Mark the targets of each row.

        Args:
            batch: the tokens; fixed ones are never targets.
            order: a uniform order of each row: distinct numbers, the greater the later.
            generator: randomness of the rows.
        """
        ...
