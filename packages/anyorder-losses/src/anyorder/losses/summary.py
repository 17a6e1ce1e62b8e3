"""What a head for whole sequences reads: one vector a sequence."""

from __future__ import annotations

from typing import Literal

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from anyorder.core import RecipeError

from .attention_pooling import AttentionPooling
from .dense import dense
from .pooling import pool_at, pool_mean

Pooling = Literal["token", "mean", "attention"]


class SequenceSummary(nn.Module):
    """Pool, project with tanh, drop out (``modeling.py`` ``summarize_sequence``).

    Where a token is read is given by its index, found from the data (:func:`find_token`, :func:`last_true`,
    :func:`first_true`), so that left and right padding give one result. The official ``last`` and ``first`` are the
    indices ``N - 1`` and ``0``; its ``mean`` is a ``real`` that is true on padding as well.

    Args:
        d_model: width of the hidden states.
        pooling: ``token`` at an index, ``mean`` over real tokens, or ``attention`` of a learned query over them.
        project: pass the pooled state through a dense layer and tanh.
        dropout: of the result.
        n_head, d_head, attention_dropout: of ``attention``.
        init_std: standard deviation of the initial weights.

    Raises:
        RecipeError: ``attention`` without ``n_head``.
    """

    def __init__(
        self,
        *,
        d_model: int,
        pooling: Pooling = "token",
        project: bool = True,
        dropout: float = 0.1,
        n_head: int | None = None,
        d_head: int | None = None,
        attention_dropout: float = 0.1,
        init_std: float = 0.02,
    ) -> None:
        super().__init__()
        if pooling not in ("token", "mean", "attention"):
            raise RecipeError(f"pooling is {pooling!r}; allowed are 'token', 'mean' and 'attention'", path="pooling")
        self.pooling = pooling
        self.attend: AttentionPooling | None = None
        if pooling == "attention":
            if n_head is None:
                raise RecipeError("pooling 'attention' needs a number of heads", path="n_head")
            self.attend = AttentionPooling(
                d_model=d_model,
                n_head=n_head,
                d_head=d_head,
                dropout=dropout,
                attention_dropout=attention_dropout,
                init_std=init_std,
            )
        self.project = nn.Sequential(dense(d_model, d_model, init_std=init_std), nn.Tanh()) if project else None
        self.drop = nn.Dropout(dropout)

    def forward(
        self,
        hidden: Float[Tensor, "B N D"],
        *,
        index: Int[Tensor, " B"] | None = None,
        real: Bool[Tensor, "B N"] | None = None,
    ) -> Float[Tensor, "B D"]:
        """Summarise.

        Args:
            hidden: states of the content stream.
            index: where ``token`` reads.
            real: the tokens over which ``mean`` and ``attention`` go.
        """
        if self.pooling == "token":
            assert index is not None, "token pooling reads at an index"
            pooled = pool_at(hidden, index)
        else:
            assert real is not None, f"{self.pooling} pooling needs to know which tokens are real"
            pooled = pool_mean(hidden, real) if self.attend is None else self.attend(hidden, real)
        if self.project is not None:
            pooled = self.project(pooled)
        dropped: Tensor = self.drop(pooled)
        return dropped
