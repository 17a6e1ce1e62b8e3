"""One number a sequence, or a pair of them."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from .dense import dense
from .row_loss import RowOutput, row_loss, wide


class SequenceRegression(nn.Module):
    """Squared error of one linear output of a summary (``modeling.py`` ``regression_loss``), as for STS-B.

    Args:
        d_model: width of the summary.
        init_std: standard deviation of the initial weights.
    """

    def __init__(self, *, d_model: int, init_std: float = 0.02) -> None:
        super().__init__()
        self.value = dense(d_model, 1, init_std=init_std)

    def forward(
        self,
        summary: Float[Tensor, "B D"],
        *,
        labels: Float[Tensor, " B"] | None = None,
        weight: Float[Tensor, " B"] | None = None,
    ) -> RowOutput:
        """Values ``[B]``; with labels also the loss."""
        values = wide(self.value(summary)).squeeze(-1)
        if labels is None:
            return RowOutput(logits=values)
        return RowOutput(logits=values, loss=row_loss((values - labels.to(values.dtype)).square(), weight))
