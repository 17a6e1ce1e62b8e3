"""Softmax cross entropy over the vocabulary, tied to the word embedding."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

from anyorder.core import TARGETS, LossOutput, Readout, RecipeError, Streams, TokenBatch


class CrossEntropy(nn.Module):
    """``-log softmax(h E^T + b)[label]`` of every target (XLNet eq. 3 to 5; ``modeling.py`` ``lm_loss``).

    The two regularisers act in training only: a measured loss is always the plain one.

    Args:
        vocab_size: number of pieces.
        label_smoothing: part of the label's probability that is spread evenly over the vocabulary, 0 to under 1
            (Szegedy et al. 2016, section 7).
        z_loss: weight of ``log(sum(exp(logits)))^2``, which keeps the normaliser near 1 (PaLM, section 5: 1e-4).

    Raises:
        RecipeError: a value out of range.
    """

    def __init__(self, *, vocab_size: int, label_smoothing: float = 0.0, z_loss: float = 0.0) -> None:
        super().__init__()
        if not 0.0 <= label_smoothing < 1.0:
            raise RecipeError(
                f"label_smoothing is {label_smoothing}; it must be from 0 to under 1", path="label_smoothing"
            )
        if not z_loss >= 0.0:
            raise RecipeError(f"z_loss is {z_loss}; it must be 0 (none) or more", path="z_loss")
        self.label_smoothing, self.z_loss = label_smoothing, z_loss
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
        losses = self._losses(logits.flatten(0, 1), readout.labels.flatten()).view_as(readout.labels)
        weight = readout.weight.to(losses.dtype)
        counted = torch.where(weight > 0, losses, torch.zeros_like(losses))
        return LossOutput(loss_sum=(counted * weight).sum(), weight_sum=readout.weight_sum, per_target=losses.detach())

    def _losses(self, logits: Float[Tensor, "N V"], labels: Int[Tensor, " N"]) -> Float[Tensor, " N"]:
        if not self.training:
            return cross_entropy(logits, labels, reduction="none")
        losses = cross_entropy(logits, labels, reduction="none", label_smoothing=self.label_smoothing)
        if self.z_loss:
            losses = losses + self.z_loss * logits.logsumexp(dim=-1) ** 2
        return losses
