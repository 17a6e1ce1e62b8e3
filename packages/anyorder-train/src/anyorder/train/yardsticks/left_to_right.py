"""Left to right: the second half of a window, token by token, after its first half."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from anyorder.core import CONSECUTIVE, ONE_SHOT, PERMUTATION, Draws, Plan, TokenBatch

from ..objective import Objective
from .halves import second_half
from .hiding import measure_hidden
from .plans import left_to_right
from .way import Way, standing_of
from .yardstick import Measurement, Standing

__all__ = ["LeftToRight"]


def _after_first_half(batch: TokenBatch, hidden: Bool[Tensor, "B L"], context: Draws | None) -> list[Plan]:
    """The identity order cut in the middle; without a cut where the model never saw an unordered context."""
    given = None if context is not None else torch.full((batch.rows, 1), batch.length // 2)
    return left_to_right(batch, hidden, given=given)


_WAYS = (
    Way(
        traits=frozenset({PERMUTATION}),
        sees="all tokens to the left: the identity order",
        plans=_after_first_half,
    ),
    Way(
        traits=frozenset({CONSECUTIVE}),
        sees="all tokens to the left: its own order",
        plans=lambda batch, hidden, context: left_to_right(batch, hidden),
        merges=True,
    ),
)

_OTHERWISE = {
    ONE_SHOT: "it predicts all hidden tokens at once, each as if alone, so the order of a text is no order of its own; "
    "the product of its single predictions would be a pseudo-likelihood"
}


@dataclass(frozen=True, kw_only=True)
class LeftToRight:
    """``-log p(second half | first half)``, the chain rule from left to right.

    Every model is scored on the same tokens, the second half of a window, so that none has to predict without
    context. A permutation LM does it by the identity order, the first half being given.
    """

    name = "left_to_right"
    title = "Left to right"
    says = "the second half of a window, each token from all that stand before it"
    kinds = (
        "exact for left-to-right and permutation models; undefined for models that predict all hidden tokens at once"
    )

    def defined_for(self, objective: Objective) -> Standing:
        return standing_of(objective, _WAYS, otherwise=_OTHERWISE)

    def measure(
        self, objective: Objective, windows: TokenBatch, *, piece_bytes: Int[Tensor, " V"], seed: int = 0
    ) -> Measurement:
        return measure_hidden(
            objective,
            windows,
            {"all": second_half(windows)[:, None]},
            yardstick=self.name,
            standing=self.defined_for(objective),
            ways=_WAYS,
            piece_bytes=torch.as_tensor(piece_bytes),
            seed=seed,
        )
