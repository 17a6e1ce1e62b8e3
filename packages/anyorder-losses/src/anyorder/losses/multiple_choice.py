"""Which of several sequences is right."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from .dense import dense
from .row_loss import RowOutput, row_loss, wide


class MultipleChoice(nn.Module):
    """Softmax over one score of each choice's summary (``function_builder.py`` ``get_race_loss``).

    The sequences of a question stand one after another: row ``b * C + c`` is choice ``c`` of question ``b``.

    Args:
        d_model: width of the summaries.
        choices: how many each question has.
        init_std: standard deviation of the initial weights.
    """

    def __init__(self, *, d_model: int, choices: int = 4, init_std: float = 0.02) -> None:
        super().__init__()
        self.choices = choices
        self.score = dense(d_model, 1, init_std=init_std)

    def forward(
        self,
        summary: Float[Tensor, "BC D"],
        *,
        labels: Int[Tensor, " B"] | None = None,
        weight: Float[Tensor, " B"] | None = None,
    ) -> RowOutput:
        """Scores ``[B, C]``; with labels also the loss and, as a metric, the number of questions that were right."""
        logits = wide(self.score(summary)).view(-1, self.choices)
        if labels is None:
            return RowOutput(logits=logits)
        losses = cross_entropy(logits, labels, reduction="none")
        correct = logits.argmax(dim=-1) == labels
        return RowOutput(logits=logits, loss=row_loss(losses, weight, metrics={"accuracy": correct}))
