"""One vector a sequence: at a token found from the data, or the mean over real tokens."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from anyorder.core import DataError


def find_token(ids: Int[Tensor, "B N"], token: int) -> Int[Tensor, " B"]:
    """Where ``token`` (the classification token, say) last stands in each row, whichever side is padded.

    Raises:
        DataError: a row does not hold it.
    """
    found = ids == token
    missing = (~found.any(dim=1)).nonzero()
    if len(missing):
        raise DataError(
            f"row {int(missing[0])} has no token {token} to be read at; check the layout of the inputs and the cls id"
        )
    return last_true(found)


def last_true(mask: Bool[Tensor, "B N"]) -> Int[Tensor, " B"]:
    """Place of the last true entry of each row: the last real token of a mask of real tokens; 0 where there is none."""
    place = torch.arange(mask.shape[1], device=mask.device)
    return (place * mask).amax(dim=1)


def first_true(mask: Bool[Tensor, "B N"]) -> Int[Tensor, " B"]:
    """Place of the first true entry of each row; 0 where there is none."""
    return mask.int().argmax(dim=1)


def pool_at(hidden: Float[Tensor, "B N D"], index: Int[Tensor, " B"]) -> Float[Tensor, "B D"]:
    """The state at one place of each row."""
    return hidden[torch.arange(hidden.shape[0], device=hidden.device), index]


def pool_mean(hidden: Float[Tensor, "B N D"], real: Bool[Tensor, "B N"]) -> Float[Tensor, "B D"]:
    """The mean state of the tokens that are marked; zero for a row without any.

    The official ``mean`` (``modeling.py`` ``summarize_sequence``) averages over padding too, which makes a result
    depend on how far its row was padded.
    """
    kept = hidden.masked_fill(~real[..., None], 0.0)
    return kept.sum(dim=1) / real.sum(dim=1, keepdim=True).clamp(min=1).to(hidden.dtype)
