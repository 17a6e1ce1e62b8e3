"""The paper's cut of the order."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Bool, Int
from torch import Tensor

from anyorder.core import Draws, TokenBatch

from .checks import require_at_least
from .goals import most_targets, row_goals, take_first


@dataclass(frozen=True, kw_only=True)
class LastFraction:
    """Predict the last 1/k of the order (XLNet, section 2.3: the tokens after the cut c).

    Args:
        k: one token in ``k`` is a target: ``round(n / k)`` of a row of ``n`` tokens, at least one. 1 or more.

    Raises:
        RecipeError: ``k`` is under 1.
    """

    k: float = 6

    def __post_init__(self) -> None:
        require_at_least("k", self.k, 1)

    def num_targets(self, length: int) -> int:
        return most_targets(length, k=self.k)

    def choose(self, batch: TokenBatch, order: Int[Tensor, "B L"], *, generator: Draws) -> Bool[Tensor, "B L"]:
        latest_first = ~order  # -1 - order, which cannot overflow
        eligible = ~batch.fixed & ~batch.padding
        most = self.num_targets(batch.length)
        return take_first(latest_first, eligible, row_goals(batch, k=self.k), most=most)
