"""One layer of the two-stream Transformer-XL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from anyorder.core import AttentionBackend, Dropout, PositionBias, Slots

from .attention import Reader, RelativeAttention

Activation = Literal["gelu", "gelu_exact", "relu"]
"""``gelu`` is XLNet's tanh approximation; transformers' default for XLNet is ``gelu_exact``."""


def activation(name: Activation) -> nn.Module:
    """The activation of a feed-forward block."""
    if name == "relu":
        return nn.ReLU()
    return nn.GELU(approximate="tanh" if name == "gelu" else "none")


class FeedForward(nn.Module):
    """``LN(x + W2 act(W1 x + b1) + b2)`` (``modeling.py`` ``positionwise_ffn``)."""

    def __init__(
        self, *, d_model: int, d_inner: int, dropout: float, activation_name: Activation, norm_eps: float
    ) -> None:
        super().__init__()
        self.expand = nn.Linear(d_model, d_inner)
        self.activation = activation(activation_name)
        self.contract = nn.Linear(d_inner, d_model)
        self.drop = Dropout(dropout)
        self.norm = nn.LayerNorm(d_model, eps=norm_eps)

    def forward(self, states: Float[Tensor, "B N D"]) -> Float[Tensor, "B N D"]:
        inner = self.drop(self.activation(self.expand(states)))
        normed: Tensor = self.norm(states + self.drop(self.contract(inner)))
        return normed


class TwoStreamLayer(nn.Module):
    """Relative attention and a feed-forward block, post-norm, with the same weights for both streams.

    Both streams take keys and values from ``[memory; content]``; the query stream never feeds the content stream
    (XLNet section 2.3, ``modeling.py`` ``two_stream_rel_attn``).
    """

    def __init__(
        self,
        *,
        backend: AttentionBackend,
        biases: Sequence[PositionBias],
        d_model: int,
        n_head: int,
        d_head: int,
        d_inner: int,
        dropout: float,
        attention_dropout: float,
        activation: Activation,
        norm_eps: float,
    ) -> None:
        super().__init__()
        self.attention = RelativeAttention(
            backend=backend,
            biases=biases,
            d_model=d_model,
            n_head=n_head,
            d_head=d_head,
            dropout=attention_dropout,
        )
        self.drop = Dropout(dropout)
        self.norm = nn.LayerNorm(d_model, eps=norm_eps)
        self.feed_forward = FeedForward(
            d_model=d_model, d_inner=d_inner, dropout=dropout, activation_name=activation, norm_eps=norm_eps
        )

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
        """The next states of the streams, which lie one after another in ``states``: each weight is read once."""
        read = self.attention(states, key, value, streams=streams, keys=keys, distances=distances)
        fed: Tensor = self.feed_forward(self.norm(states + self.drop(read)))
        return fed
