"""XLNet's relative segment term: (q_i + r_s) . s, s being one vector for the same segment and one for another."""

from __future__ import annotations

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor, nn

from anyorder.core import MatchTerm, ScoreBias, Slots


class SegmentBias(nn.Module):
    """Segment term of one layer (XLNet section 2.5; ``modeling.py`` ``rel_attn_core``). No term without segments.

    Args:
        d_model: unused width of the model; every position bias is offered the same sizes.
        n_head, d_head: heads and their width.
    """

    def __init__(self, *, d_model: int, n_head: int, d_head: int) -> None:
        super().__init__()
        self.r_s_bias = nn.Parameter(torch.zeros(n_head, d_head))
        self.seg_embed = nn.Parameter(torch.zeros(2, n_head, d_head))  # same, other

    def tie(self, first: SegmentBias) -> None:
        """Share the bias vector of another layer's term (``untie_r`` false); the segment vectors stay per layer."""
        self.r_s_bias = first.r_s_bias

    def forward(
        self,
        query: Float[Tensor, "B H Q d"],
        *,
        readers: Slots,
        keys: Slots,
        distances: Tensor | None,
    ) -> ScoreBias | None:
        if readers.segment is None or keys.segment is None:
            return None
        query = query + self.r_s_bias[:, None].to(query.dtype)
        scores = einsum(query, self.seg_embed, "b h q d, s h d -> b h q s")
        return ScoreBias((MatchTerm(scores=scores, reader=readers.segment, key=keys.segment),))
