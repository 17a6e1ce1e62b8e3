"""What the yardsticks share: hide the same tokens for every model, ask in the model's own way, add up by window."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from anyorder.core import TokenBatch

from ..objective import Objective
from .scoring import UnscorableError, evaluating
from .way import Way, choose_way, orders_its_context
from .yardstick import Measurement, Score, Standing

__all__ = ["measure_hidden"]


def measure_hidden(
    objective: Objective,
    windows: TokenBatch,
    parts: Mapping[str, Bool[Tensor, "N S L"]],
    *,
    yardstick: str,
    standing: Standing,
    ways: Sequence[Way],
    piece_bytes: Int[Tensor, " V"],
    seed: int,
) -> Measurement:
    """Score each part's choices of hidden tokens.

    A model whose parts turn out not to express the question is reported as undefined, with the reason.
    """
    began = time.perf_counter()
    way = choose_way(objective, ways)
    scores: dict[str, Score] = {}
    if way is not None and standing.defined:
        context_seed = seed if orders_its_context(objective, windows) else None
        try:
            with evaluating(objective):
                nats = way.score(objective, windows, torch.cat(list(parts.values()), dim=1), context_seed=context_seed)
            counts = [hidden.shape[1] for hidden in parts.values()]
            for (part, hidden), found in zip(parts.items(), nats.split(counts, dim=1), strict=True):
                sizes = piece_bytes[windows.ids] * hidden.sum(dim=1)  # [N, L]
                scores[part] = Score.of(found.sum(dim=1), hidden.sum(dim=(1, 2)), sizes.sum(dim=1))
        except UnscorableError as error:
            standing, scores = replace(standing, kind="undefined", reason=str(error)), {}
    return Measurement(yardstick=yardstick, standing=standing, scores=scores, seconds=time.perf_counter() - began)
