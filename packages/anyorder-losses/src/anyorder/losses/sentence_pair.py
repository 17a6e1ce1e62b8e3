"""Two classes of a pair of segments, read at the classification token."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from anyorder.core import DataError, LossOutput, Readout, Streams, TokenBatch


class SentencePair(nn.Module):
    """Base of heads that read two classes from the content stream at the classification token.

    They bring their own readout, so they ride along with any order and mask whose data have pairs of segments. A
    subclass says which ``label`` of the rows it predicts, and which data have that.

    Args:
        d_model: width of the hidden states.
        cls_id: id of the classification token.
    """

    label: ClassVar[str]
    needs: ClassVar[str]
    """Settings of the data that give the label, for the message of an error."""

    def __init__(self, *, d_model: int, cls_id: int = 3) -> None:
        super().__init__()
        self.cls_id = cls_id
        self.summary = nn.Linear(d_model, d_model)
        self.classify = nn.Linear(d_model, 2)

    def readout(self, batch: TokenBatch, streams: Streams) -> Readout:
        """One prediction a row, at its classification token. Weight 0 where a row has none.

        Raises:
            DataError: the batch has no such labels.
        """
        if self.label not in batch.labels:
            raise DataError(
                f"the {self.label} head needs pairs of segments labelled {self.label!r}: set {self.needs}, or remove "
                "the head"
            )
        at_cls = batch.ids == self.cls_id
        return Readout(
            stream="content",
            index=at_cls.int().argmax(dim=1, keepdim=True),
            labels=batch.labels[self.label][:, None],
            weight=at_cls.any(dim=1, keepdim=True).float(),
        )

    def forward(
        self, hidden: Float[Tensor, "B P D"], readout: Readout, *, embedding: Float[Tensor, "V D"]
    ) -> LossOutput:
        logits = self.classify(torch.tanh(self.summary(hidden))).float()  # [B, P, 2]
        losses = cross_entropy(logits.flatten(0, 1), readout.labels.flatten(), reduction="none")
        losses = losses.view_as(readout.labels)
        weight = readout.weight.to(losses.dtype)
        correct = (logits.argmax(dim=-1) == readout.labels).to(losses.dtype)
        return LossOutput(
            loss_sum=(losses * weight).sum(),
            weight_sum=readout.weight_sum,
            per_target=losses.detach(),
            metrics={"accuracy": (correct * weight).sum().detach()},
        )
