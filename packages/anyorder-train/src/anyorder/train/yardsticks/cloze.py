"""Cloze: one hidden token, all else of the window visible."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from anyorder.core import CONSECUTIVE, ONE_SHOT, PERMUTATION, TokenBatch

from ..objective import Objective
from .hidden import sample_spans
from .hiding import measure_hidden
from .plans import in_turn, left_to_right
from .way import Way, standing_of
from .yardstick import Measurement, Standing

__all__ = ["LEFT_CONTEXT", "Cloze"]

LEFT_CONTEXT = Way(
    traits=frozenset({CONSECUTIVE}),
    sees="only the tokens to the left",
    plans=lambda batch, hidden, context: left_to_right(batch, hidden),
    merges=True,
)

_WAYS = (
    Way(
        traits=frozenset({ONE_SHOT, PERMUTATION}),
        sees="all other tokens of the window, on both sides",
        plans=lambda batch, hidden, context: in_turn(batch, hidden, context=context),
    ),
    LEFT_CONTEXT,
)


@dataclass(frozen=True, kw_only=True)
class Cloze:
    """``-log p(x_i | what the model can see of the rest)``, each hidden token on its own.

    A permutation LM reads it from the query of that token, all others being given; a masked LM from its one
    ``[MASK]``; a left-to-right LM knows the left context only.

    Args:
        targets: hidden tokens a window, from its middle half.
    """

    targets: int = 8

    name = "cloze"
    title = "Cloze"
    says = "one hidden token, everything else of the window visible to models that can look both ways"
    kinds = "exact for every model, a left-to-right one knowing the left context only"

    def defined_for(self, objective: Objective) -> Standing:
        return standing_of(objective, _WAYS, otherwise={})

    def measure(
        self, objective: Objective, windows: TokenBatch, *, piece_bytes: Int[Tensor, " V"], seed: int = 0
    ) -> Measurement:
        hidden = sample_spans(windows, length=1, count=self.targets, seed=seed, purpose=self.name)
        return measure_hidden(
            objective,
            windows,
            {"all": hidden},
            yardstick=self.name,
            standing=self.defined_for(objective),
            ways=_WAYS,
            piece_bytes=torch.as_tensor(piece_bytes),
            seed=seed,
        )
