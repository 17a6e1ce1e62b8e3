"""A pretrained backbone with a head for classes."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from anyorder.core import Slots, Streams, TokenBatch
from anyorder.losses import RowOutput, SequenceClassification, SequenceSummary, find_token
from anyorder.losses.summary import Pooling
from anyorder.models import TransformerXL

__all__ = ["Classifier", "encoder_streams"]


def encoder_streams(batch: TokenBatch) -> Streams:
    """One content stream in which every token of a row sees every other: all are known at time 0."""
    return Streams(content=Slots.of_tokens(batch, torch.zeros_like(batch.ids)))


class Classifier(nn.Module):
    """Backbone, summary and classes. Memory is not used, as in the official fine-tuning.

    Args:
        backbone: pretrained.
        cls_id: the token that is read where ``pooling`` is ``token``.
        classes: how many there are.
        n_head: of the pooling by ``attention``.
        pooling, project, dropout: of the summary (``SequenceSummary``).
    """

    def __init__(
        self,
        backbone: TransformerXL,
        *,
        cls_id: int,
        classes: int,
        n_head: int,
        pooling: Pooling = "token",
        project: bool = True,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.backbone, self.cls_id, self.pooling = backbone, cls_id, pooling
        width = backbone.d_model
        self.heads = nn.ModuleDict(
            {
                "summary": SequenceSummary(
                    d_model=width, pooling=pooling, project=project, dropout=dropout, n_head=n_head
                ),
                "classification": SequenceClassification(d_model=width, classes=classes),
            }
        )

    def forward(
        self,
        batch: TokenBatch,
        *,
        labels: Int[Tensor, " B"] | None = None,
        weight: Float[Tensor, " B"] | None = None,
    ) -> RowOutput:
        """Scores ``[B, C]`` of each row's classes; with labels also the loss."""
        hidden = self.backbone(encoder_streams(batch)).content
        index = find_token(batch.ids, self.cls_id) if self.pooling == "token" else None
        summary = self.heads["summary"](hidden, index=index, real=~batch.padding)
        output: RowOutput = self.heads["classification"](summary, labels=labels, weight=weight)
        return output
