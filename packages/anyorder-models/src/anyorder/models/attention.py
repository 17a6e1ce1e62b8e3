"""Relative attention of one layer, shared by the content and the query stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from anyorder.core import AttentionBackend, PositionBias, ScoreBias, Slots, Visibility


@dataclass(frozen=True)
class Reader:
    """The slots of one stream, and what they may attend to."""

    slots: Slots
    visibility: Visibility


class RelativeAttention(nn.Module):
    """``A_ij = ((q_i + r_w) . k_j + biases(q_i, i, j)) / sqrt(d_head)``, softmax, output projection.

    Transformer-XL section 3.3 with XLNet's segments; ``modeling.py`` ``rel_attn_core`` and ``post_attention``. The
    projections have no bias. Keys and values are computed once and serve both streams.

    Args:
        backend: what computes the softmax.
        biases: score terms of this layer.
        d_model, n_head, d_head: sizes; ``n_head * d_head`` need not be ``d_model``.
        dropout: of attention weights.
    """

    def __init__(
        self,
        *,
        backend: AttentionBackend,
        biases: Sequence[PositionBias],
        d_model: int,
        n_head: int,
        d_head: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.backend = backend
        self.biases = nn.ModuleList(biases)  # type: ignore[arg-type]
        self.n_head, self.scale, self.dropout = n_head, d_head**-0.5, dropout
        self.query, self.key, self.value = (nn.Linear(d_model, n_head * d_head, bias=False) for _ in range(3))
        self.out = nn.Linear(n_head * d_head, d_model, bias=False)
        self.r_w_bias = nn.Parameter(torch.zeros(n_head, d_head))

    def keys_and_values(
        self, source: Float[Tensor, "B K D"]
    ) -> tuple[Float[Tensor, "B H K d"], Float[Tensor, "B H K d"]]:
        return self._split(self.key(source)), self._split(self.value(source))

    def project(self, source: Float[Tensor, "B K D"]) -> Float[Tensor, "B K 2E"]:
        """Keys and values side by side, as a memory holds them; ``E = n_head * d_head``."""
        return torch.cat([self.key(source), self.value(source)], dim=-1)

    def split_projected(
        self, projected: Float[Tensor, "B K 2E"]
    ) -> tuple[Float[Tensor, "B H K d"], Float[Tensor, "B H K d"]]:
        key, value = projected.chunk(2, dim=-1)
        return self._split(key), self._split(value)

    def forward(
        self,
        states: Float[Tensor, "B Q D"],
        key: Float[Tensor, "B H K d"],
        value: Float[Tensor, "B H K d"],
        *,
        streams: Sequence[Reader],
        keys: Slots,
        distances: Tensor,
    ) -> Float[Tensor, "B Q D"]:
        """What every state reads; ``states`` are those of all ``streams``, one stream after another."""
        query = self._split(self.query(states))
        biased = query + self.r_w_bias[:, None].to(query.dtype)
        sizes = [stream.slots.count for stream in streams]
        read = [
            self._read(part, biased_part, key, value, stream=stream, keys=keys, distances=distances)
            for part, biased_part, stream in zip(
                query.split(sizes, dim=2), biased.split(sizes, dim=2), streams, strict=True
            )
        ]
        joined: Tensor = self.out(read[0] if len(read) == 1 else torch.cat(read, dim=1))
        return joined

    def _read(
        self,
        query: Float[Tensor, "B H Q d"],
        biased: Float[Tensor, "B H Q d"],
        key: Float[Tensor, "B H K d"],
        value: Float[Tensor, "B H K d"],
        *,
        stream: Reader,
        keys: Slots,
        distances: Tensor,
    ) -> Float[Tensor, "B Q E"]:
        terms = [bias(query, readers=stream.slots, keys=keys, distances=distances) for bias in self.biases]
        read = self.backend(
            biased,
            key,
            value,
            visibility=stream.visibility,
            bias=ScoreBias.join(*terms),
            scale=self.scale,
            dropout=self.dropout if self.training else 0.0,
        )
        return rearrange(read, "b h q d -> b q (h d)")

    def _split(self, projected: Float[Tensor, "B N E"]) -> Float[Tensor, "B H N d"]:
        return rearrange(projected, "b n (h d) -> b h n d", h=self.n_head)
