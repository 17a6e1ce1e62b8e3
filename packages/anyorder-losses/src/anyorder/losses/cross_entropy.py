"""Softmax cross entropy over the vocabulary, tied to the word embedding."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear

from anyorder.core import TARGETS, LossOutput, Readout, RecipeError, Streams, TokenBatch

from .linear_cross_entropy import Smoothing, linear_cross_entropy, token_losses
from .target_loss import target_loss


class CrossEntropy(nn.Module):
    """``-log softmax(h E^T + b)[label]`` of every target (XLNet eq. 3 to 5; ``modeling.py`` ``lm_loss``).

    The two regularisers act in training only: a measured loss is always the plain one.

    Args:
        vocab_size: number of pieces.
        label_smoothing: part of the label's probability that is spread evenly over the vocabulary, 0 to under 1
            (Szegedy et al. 2016, section 7).
        z_loss: weight of ``log(sum(exp(logits)))^2``, which keeps the normaliser near 1 (PaLM, section 5: 1e-4).
        logits_at_once: most logits that exist at one time, whatever the number of predictions. None computes all of
            them in one piece by autograd, which is what the other way is tested against.

    Raises:
        RecipeError: a value out of range.
    """

    def __init__(
        self,
        *,
        vocab_size: int,
        label_smoothing: float = 0.0,
        z_loss: float = 0.0,
        logits_at_once: int | None = 1 << 23,
    ) -> None:
        super().__init__()
        if not 0.0 <= label_smoothing < 1.0:
            raise RecipeError(
                f"label_smoothing is {label_smoothing}; it must be from 0 to under 1", path="label_smoothing"
            )
        if not z_loss >= 0.0:
            raise RecipeError(f"z_loss is {z_loss}; it must be 0 (none) or more", path="z_loss")
        if logits_at_once is not None and logits_at_once < 1:
            raise RecipeError(
                f"logits_at_once is {logits_at_once}; it must be at least 1, or null for all", path="logits_at_once"
            )
        self.label_smoothing, self.z_loss, self.logits_at_once = label_smoothing, z_loss, logits_at_once
        self.bias = nn.Parameter(torch.zeros(vocab_size))

    def readout(self, batch: TokenBatch, streams: Streams) -> Readout:
        return streams.readouts[TARGETS]

    def logits(self, hidden: Float[Tensor, "... D"], *, embedding: Float[Tensor, "V D"]) -> Float[Tensor, "... V"]:
        return linear(hidden, embedding, self.bias)

    def forward(
        self, hidden: Float[Tensor, "B P D"], readout: Readout, *, embedding: Float[Tensor, "V D"]
    ) -> LossOutput:
        """Weighted sum over targets. A prediction of weight 0 adds nothing, whatever its hidden state."""
        flat, labels = hidden.flatten(0, 1), readout.labels.flatten()
        if self.logits_at_once is None or not torch.is_grad_enabled() or torch.compiler.is_compiling():
            return target_loss(self._losses(flat, labels, embedding), readout)
        loss_sum, losses = linear_cross_entropy(
            flat,
            embedding,
            self.bias,
            labels,
            readout.weight.flatten(),
            smoothing=self._smoothing(),
            logits_at_once=self.logits_at_once,
        )
        per_target = losses.view_as(readout.labels)
        return LossOutput(loss_sum=loss_sum, weight_sum=readout.weight_sum, per_target=per_target)

    def _losses(
        self, hidden: Float[Tensor, "N D"], labels: Int[Tensor, " N"], embedding: Float[Tensor, "V D"]
    ) -> Float[Tensor, " N"]:
        """Losses by autograd; without gradients, a part of the logits at a time."""
        rows = max(1, len(labels))
        if self.logits_at_once is not None and not torch.is_grad_enabled():
            rows = max(1, self.logits_at_once // embedding.shape[0])
        parts = [
            token_losses(self.logits(part, embedding=embedding), wanted, self._smoothing())
            for part, wanted in zip(hidden.split(rows), labels.split(rows), strict=True)
        ]
        return torch.cat(parts)

    def _smoothing(self) -> Smoothing:
        return Smoothing(self.label_smoothing, self.z_loss) if self.training else Smoothing()
