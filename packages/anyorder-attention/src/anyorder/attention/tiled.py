"""Attention for a CPU: one head's tile of scores at a time, so that it stays in the cache from product to softmax."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from anyorder.core import (
    AttentionRequest,
    DistanceTerm,
    MatchTerm,
    RecipeError,
    ScoreBias,
    ScoreTerm,
    Visibility,
)

from .sdpa import Sdpa
from .tiles import Factors, TiledAttention, Tiling


class Tiled:
    """The naive backend's numbers with a fraction of its memory traffic; forward and backward are written by hand.

    A dense implementation passes over all scores of all heads once for every sum, scale, mask and softmax. Here each
    tile goes through all of them before the next one starts, position scores are computed for the tile's own run of
    distances only, and keys that nobody in the tile can see are left out. Kept for the backward pass: the weights, or
    with ``recompute`` nothing. Calls whose tiles would be too small to pay for their own bookkeeping go to ``sdpa``,
    and so does a graph that is compiled without having asked.

    Args:
        tile: queries in a tile.
        recompute: compute the weights again in the backward pass, for memory that grows with the length alone.
        smallest: fewest scores of a head's tile that are worth a tile; below it ``sdpa`` is faster.
    """

    name = "tiled"

    def __init__(self, *, tile: int = 512, recompute: bool = False, smallest: int = 1 << 16) -> None:
        if tile < 1:
            raise RecipeError(f"tile is {tile}; it must be at least 1", path="attention.tile")
        self.tile, self.recompute, self.smallest = tile, recompute, smallest
        self._dense = Sdpa()

    def refuse(self, request: AttentionRequest) -> str | None:
        if request.device.type != "cpu":
            return f"it is written for the caches of a CPU, and the model is on {request.device.type}"
        if request.compiled:
            return "torch.compile cannot follow its tiles (train.compile)"
        return None

    def __call__(
        self,
        query: Float[Tensor, "B H Q d"],
        key: Float[Tensor, "B H K d"],
        value: Float[Tensor, "B H K d"],
        *,
        visibility: Visibility,
        bias: ScoreBias | None,
        scale: float,
        dropout: float = 0.0,
    ) -> Float[Tensor, "B H Q d"]:
        small = min(self.tile, query.shape[2]) * key.shape[2] < self.smallest
        if small or torch.compiler.is_compiling():  # a compiler fuses the dense passes, and cannot follow the tiles
            return self._dense(query, key, value, visibility=visibility, bias=bias, scale=scale, dropout=dropout)
        distance, match, others = _sort_terms(bias)
        tiling = Tiling(
            visibility=visibility,
            distance=distance,
            match=match,
            scale=scale,
            dropout=dropout,
            tile=self.tile,
            recompute=self.recompute,
        )
        factors = Factors(
            distance_query=None if distance is None else distance.query,
            codes=None if distance is None else distance.codes,
            match=None if match is None else match.scores,
            other=ScoreBias(others).dense() if others else None,
        )
        factors = Factors(*(None if part is None else part.to(query.dtype) for part in factors))
        out: Tensor = TiledAttention.apply(tiling, query, key, value, *factors)  # type: ignore[no-untyped-call]
        return out


def _sort_terms(
    bias: ScoreBias | None,
) -> tuple[DistanceTerm | None, MatchTerm | None, tuple[ScoreTerm, ...]]:
    """The first distance term and the first match term, which tiles compute themselves, and all others."""
    distance: DistanceTerm | None = None
    match: MatchTerm | None = None
    others: list[ScoreTerm] = []
    for term in () if bias is None else bias.terms:
        if isinstance(term, DistanceTerm) and distance is None and term.query is not None:
            distance = term
        elif isinstance(term, MatchTerm) and match is None:
            match = term
        else:
            others.append(term)
    return distance, match, tuple(others)
