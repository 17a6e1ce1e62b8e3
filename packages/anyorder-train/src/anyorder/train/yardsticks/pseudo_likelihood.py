"""Pseudo-likelihood: every token of the second half of a window from all other tokens."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from anyorder.core import CONSECUTIVE, ONE_SHOT, PERMUTATION, TokenBatch

from ..objective import Objective
from .halves import second_half
from .hiding import measure_hidden
from .plans import in_turn
from .way import Way, standing_of
from .yardstick import Measurement, Standing

__all__ = ["PseudoLikelihood"]

_WAYS = (
    Way(
        traits=frozenset({ONE_SHOT, PERMUTATION}),
        sees="all other tokens of the window, on both sides, one pass a token",
        plans=lambda batch, hidden, context: in_turn(batch, hidden, context=context),
        note="a product of conditionals that need not belong to one joint distribution: no likelihood",
    ),
)

_OTHERWISE = {CONSECUTIVE: "it never sees what stands to the right of a token that it predicts"}


@dataclass(frozen=True, kw_only=True)
class PseudoLikelihood:
    """``-sum_i log p(x_i | all others)`` over the second half of a window (Salazar et al. 2020, equation 1).

    It is no likelihood: each token is scored knowing the others, so the number lies below that of any order.
    """

    name = "pseudo_likelihood"
    title = "Pseudo-likelihood"
    says = "each token of the second half of a window, everything else being known; not a likelihood of the text"
    kinds = (
        "exact, as what it is, for models that look both ways; undefined for a left-to-right model. Never to be "
        "compared with a likelihood"
    )

    def defined_for(self, objective: Objective) -> Standing:
        return standing_of(objective, _WAYS, otherwise=_OTHERWISE)

    def measure(
        self, objective: Objective, windows: TokenBatch, *, piece_bytes: Int[Tensor, " V"], seed: int = 0
    ) -> Measurement:
        tokens = windows.length
        alone = second_half(windows)[:, None] & torch.eye(tokens, dtype=torch.bool)[tokens // 2 :]  # [N, S, L]
        return measure_hidden(
            objective,
            windows,
            {"all": alone},
            yardstick=self.name,
            standing=self.defined_for(objective),
            ways=_WAYS,
            piece_bytes=torch.as_tensor(piece_bytes),
            seed=seed,
        )
