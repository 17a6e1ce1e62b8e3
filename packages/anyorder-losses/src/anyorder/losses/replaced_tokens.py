"""Replaced-token detection: which tokens of the input are not the text's own?"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, gelu

from anyorder.core import LossOutput, Readout, Streams, TokenBatch

from .dense import dense


class ReplacedTokens(nn.Module):
    """``sigmoid(w . gelu(W h))`` at every token, 1 where it was replaced (ELECTRA, section 2).

    The labels of its readout are 0: whoever replaces tokens says which.

    Args:
        d_model: width of the hidden states.
        init_std: standard deviation of the initial weights.
    """

    def __init__(self, *, d_model: int, init_std: float = 0.02) -> None:
        super().__init__()
        self.transform = dense(d_model, d_model, init_std=init_std)
        self.classify = dense(d_model, 1, init_std=init_std)

    def readout(self, batch: TokenBatch, streams: Streams) -> Readout:
        """One prediction a token that is not padding, in natural order."""
        return Readout(
            stream="content",
            index=torch.arange(batch.length, device=batch.ids.device).expand_as(batch.ids),
            labels=torch.zeros_like(batch.ids),
            weight=(~batch.padding).float(),
        )

    def forward(
        self, hidden: Float[Tensor, "B P D"], readout: Readout, *, embedding: Float[Tensor, "V D"]
    ) -> LossOutput:
        logits = self.classify(gelu(self.transform(hidden)))[..., 0]  # [B, P]
        if logits.dtype in (torch.float16, torch.bfloat16):
            logits = logits.float()
        losses = binary_cross_entropy_with_logits(logits, readout.labels.to(logits.dtype), reduction="none")
        weight = readout.weight.to(losses.dtype)
        correct = ((logits > 0) == (readout.labels > 0)).to(losses.dtype)
        return LossOutput(
            loss_sum=(losses * weight).sum(),
            weight_sum=readout.weight_sum,
            per_target=losses.detach(),
            metrics={"accuracy": (correct * weight).sum().detach()},
        )
