"""Softmax cross entropy over the vocabulary, tied to the word embedding."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

from anyorder.core import TARGETS, LossOutput, Readout, Streams, TokenBatch


class CrossEntropy(nn.Module):
    """``-log softmax(h E^T + b)[label]`` of every target (XLNet eq. 3 to 5; ``modeling.py`` ``lm_loss``).

    Args:
        vocab_size: number of pieces.
    """

    def __init__(self, *, vocab_size: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(vocab_size))

    def readout(self, batch: TokenBatch, streams: Streams) -> Readout:
        return streams.readouts[TARGETS]

    def logits(self, hidden: Float[Tensor, "... D"], *, embedding: Float[Tensor, "V D"]) -> Float[Tensor, "... V"]:
        return linear(hidden, embedding, self.bias)

    def forward(
        self, hidden: Float[Tensor, "B P D"], readout: Readout, *, embedding: Float[Tensor, "V D"]
    ) -> LossOutput:
        """Weighted sum over targets. A prediction of weight 0 adds nothing, whatever its hidden state."""
        logits = self.logits(hidden, embedding=embedding)
        if logits.dtype in (torch.float16, torch.bfloat16):
            logits = logits.float()
        losses = cross_entropy(logits.flatten(0, 1), readout.labels.flatten(), reduction="none")
        losses = losses.view_as(readout.labels)
        weight = readout.weight.to(losses.dtype)
        counted = torch.where(weight > 0, losses, torch.zeros_like(losses))
        return LossOutput(loss_sum=(counted * weight).sum(), weight_sum=weight.sum(), per_target=losses.detach())
