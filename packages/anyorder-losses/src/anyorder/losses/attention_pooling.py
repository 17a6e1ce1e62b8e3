"""One vector a sequence: what a learned query reads from it."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import dropout as drop


class AttentionPooling(nn.Module):
    """Multi-head attention of one learned query over the tokens of a row, without positions.

    The official ``attn`` summary (``modeling.py`` ``summarize_sequence``, ``multihead_attn``): no residual, then a
    layer norm. transformers does not offer it.

    Args:
        d_model, n_head, d_head: sizes.
        dropout: of what is read.
        attention_dropout: of attention weights.
        norm_eps: epsilon of the layer norm.
        init_std: standard deviation of the initial weights, the query's too.
    """

    def __init__(
        self,
        *,
        d_model: int,
        n_head: int,
        d_head: int | None = None,
        dropout: float = 0.1,
        attention_dropout: float = 0.1,
        norm_eps: float = 1e-12,
        init_std: float = 0.02,
    ) -> None:
        super().__init__()
        d_head = d_model // n_head if d_head is None else d_head
        self.n_head, self.scale, self.attention_dropout = n_head, d_head**-0.5, attention_dropout
        self.summary_bias = nn.Parameter(torch.empty(d_model))
        self.query, self.key, self.value = (nn.Linear(d_model, n_head * d_head, bias=False) for _ in range(3))
        self.out = nn.Linear(n_head * d_head, d_model, bias=False)
        self.drop = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(d_model, eps=norm_eps)
        for weight in (self.summary_bias, self.query.weight, self.key.weight, self.value.weight, self.out.weight):
            nn.init.normal_(weight, std=init_std)

    def forward(self, hidden: Float[Tensor, "B N D"], real: Bool[Tensor, "B N"]) -> Float[Tensor, "B D"]:
        """Read from the tokens that are marked. A row without any reads zero."""
        query = self.query(self.summary_bias).unflatten(-1, (self.n_head, -1))  # [H, d]
        key, value = (project(hidden).unflatten(-1, (self.n_head, -1)) for project in (self.key, self.value))
        scores = torch.einsum("hd,bnhd->bhn", query, key) * self.scale
        scores = scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
        forbidden = ~real[:, None]
        weights = scores.masked_fill(forbidden, torch.finfo(scores.dtype).min).softmax(dim=-1)
        weights = drop(weights.masked_fill(forbidden, 0.0), p=self.attention_dropout, training=self.training)
        read = torch.einsum("bhn,bnhd->bhd", weights.to(value.dtype), value)
        normed: Tensor = self.norm(self.drop(self.out(read.flatten(1))))
        return normed
