"""PyTorch's scaled_dot_product_attention with the visibility and the bias as one additive mask."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from anyorder.core import AttentionRequest, ScoreBias, Visibility


class Sdpa:
    """``scaled_dot_product_attention``: fused where PyTorch can, the same numbers everywhere."""

    name = "sdpa"

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
        seen = visibility.dense()[:, None]  # [B, 1, Q, K]
        blind = ~seen.any(dim=-1, keepdim=True)  # [B, 1, Q, 1]
        # A blind reader is let see everything, so that no kernel meets a row of infinities, and is zeroed afterwards.
        allowed = seen | blind
        if bias is None:
            mask = allowed
        else:
            # PyTorch adds the mask after its scale, while our biases are inside the scale.
            dense = (bias.dense() * scale).to(query.dtype)
            mask = dense.masked_fill(~allowed, -torch.inf)
        out = scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout, scale=scale)
        return out.masked_fill(blind, 0.0)
