"""Next-sentence prediction: does segment B follow segment A in the text?"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from anyorder.core import DataError, LossOutput, Readout, Streams, TokenBatch


class NextSentence(nn.Module):
    """Two classes read from the content stream at the classification token (BERT section 3.1, task 2).

    It brings its own readout, so it rides along with any order and mask whose data have pairs of segments.

    Args:
        d_model: width of the hidden states.
        cls_id: id of the classification token.
    """

    label = "next_sentence"

    def __init__(self, *, d_model: int, cls_id: int = 3) -> None:
        super().__init__()
        self.cls_id = cls_id
        self.summary = nn.Linear(d_model, d_model)
        self.classify = nn.Linear(d_model, 2)

    def readout(self, batch: TokenBatch, streams: Streams) -> Readout:
        """One prediction a row, at its classification token. Weight 0 where a row has none.

        Raises:
            DataError: the batch has no ``next_sentence`` labels.
        """
        if self.label not in batch.labels:
            raise DataError(
                "the next_sentence head needs pairs of segments with labels: set data.layout to 'pairs' "
                "or remove the head"
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
