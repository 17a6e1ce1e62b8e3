"""One class a sequence, or a pair of them."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from .dense import dense
from .row_loss import RowOutput, row_loss, wide


class SequenceClassification(nn.Module):
    """Softmax cross entropy over classes of a summary (``modeling.py`` ``classification_loss``).

    Args:
        d_model: width of the summary.
        classes: how many there are.
        init_std: standard deviation of the initial weights.
    """

    def __init__(self, *, d_model: int, classes: int, init_std: float = 0.02) -> None:
        super().__init__()
        self.classify = dense(d_model, classes, init_std=init_std)

    def forward(
        self,
        summary: Float[Tensor, "B D"],
        *,
        labels: Int[Tensor, " B"] | None = None,
        weight: Float[Tensor, " B"] | None = None,
    ) -> RowOutput:
        """Scores ``[B, C]``; with labels also the loss and, as a metric, the number of rows that were right."""
        logits = wide(self.classify(summary))
        if labels is None:
            return RowOutput(logits=logits)
        losses = cross_entropy(logits, labels, reduction="none")
        correct = logits.argmax(dim=-1) == labels
        return RowOutput(logits=logits, loss=row_loss(losses, weight, metrics={"accuracy": correct}))
