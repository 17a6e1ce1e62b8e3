"""Attention written out in full: the truth that every other backend is compared with."""

from __future__ import annotations

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import dropout as drop

from anyorder.core import AttentionRequest, ScoreBias, Visibility


class Naive:
    """Plain einsum and softmax over a dense mask. Serves everything, with memory for every score."""

    name = "naive"

    def refuse(self, request: AttentionRequest) -> str | None:
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
        hidden = ~visibility.dense()[:, None]  # [B, 1, Q, K]
        scores = einsum(query, key, "b h q d, b h k d -> b h q k")
        if bias is not None:
            scores = scores + bias.dense()
        # The fill is finite and the weights are masked again after the softmax: a reader that sees nothing gets
        # exactly zero and passes no gradient, where an infinite fill gives NaN and a finite one alone a uniform
        # average over what is forbidden.
        scores = (scores * scale).float() if scores.dtype in (torch.float16, torch.bfloat16) else scores * scale
        weights = scores.masked_fill(hidden, torch.finfo(scores.dtype).min).softmax(dim=-1)
        weights = drop(weights.masked_fill(hidden, 0.0), p=dropout)
        return einsum(weights.to(value.dtype), value, "b h q k, b h k d -> b h q d")
