"""Transformer-XL's relative position term: (q_i + r_r) . (W_r R(i - j))."""

from __future__ import annotations

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from anyorder.core import DistanceTerm, LastValue, ScoreBias, Slots


class TransformerXLBias(nn.Module):
    """Position term of one layer (Dai et al. 2019, section 3.3, terms b and d; ``modeling.py`` ``rel_attn_core``).

    Args:
        d_model: width of the encoded distances.
        n_head, d_head: heads and their width.
    """

    def __init__(self, *, d_model: int, n_head: int, d_head: int) -> None:
        super().__init__()
        self.n_head, self.d_head = n_head, d_head
        self.project = nn.Linear(d_model, n_head * d_head, bias=False)
        self.r_r_bias = nn.Parameter(torch.zeros(n_head, d_head))
        self._last = LastValue()

    def tie(self, first: TransformerXLBias) -> None:
        """Share the bias vector of another layer's term (``untie_r`` false)."""
        self.r_r_bias = first.r_r_bias

    def forward(
        self,
        query: Float[Tensor, "B H Q d"],
        *,
        readers: Slots,
        keys: Slots,
        distances: Float[Tensor, "G N D"] | None,
    ) -> ScoreBias:
        """Encode every distance once, and let the term look up each pair.

        Args:
            query: projected queries, without any bias.
            readers, keys: whose positions decide the distances.
            distances: encoded distances, from ``readers.high - keys.low`` downwards; with ``G == 2`` the second table
                is for rows that read right to left, whose distances have the other sign.
        """
        assert distances is not None, "the transformer_xl position bias needs a backbone that encodes distances"
        encoded = self._last.of(lambda: self._encode(distances), distances, self.project.weight)
        codes = encoded if readers.direction is None else encoded[(readers.direction < 0).long()]
        return ScoreBias(
            (
                DistanceTerm(
                    query=query + self.r_r_bias[:, None].to(query.dtype),
                    codes=codes,
                    reader=readers.position,
                    key=keys.position,
                    high=readers.high - keys.low,
                    contiguous=readers.contiguous and keys.contiguous,
                ),
            )
        )

    def _encode(self, distances: Float[Tensor, "G N D"]) -> Float[Tensor, "G H d N"]:
        encoded: Tensor = rearrange(self.project(distances), "g n (h d) -> g h d n", h=self.n_head)
        return encoded
