"""Softmax cross entropy over the label and a few sampled pieces, for large vocabularies."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy, linear

from anyorder.core import LossOutput, Readout, RecipeError

from .cross_entropy import CrossEntropy
from .row_loss import wide
from .target_loss import target_loss


class SampledSoftmax(CrossEntropy):
    """Sampled softmax (Jean et al. 2014, section 3; TensorFlow's ``tf.nn.sampled_softmax_loss``), in training only.

    One set of distinct candidates is drawn a batch. Every logit, the label's too, loses the logarithm of its piece's
    chance to be drawn, and candidates that are the label are left out. Measured, and asked for ``logits``, it is plain
    ``CrossEntropy``; its training loss is of fewer pieces, hence lower.

    Candidates come by torch's generator, which a run seeds at every step, as for dropout.

    Args:
        vocab_size: number of pieces.
        candidates: how many pieces are drawn a batch. With all of them the loss is the full one.
        sampler: ``log_uniform``: ``P(k) = log((k + 2) / (k + 1)) / log(V + 1)``, for ids by falling frequency, as
            tokenizers of sentencepiece give them; or ``uniform``.

    Raises:
        RecipeError: a value out of range.
    """

    rate: Tensor

    def __init__(
        self,
        *,
        vocab_size: int,
        candidates: int = 1024,
        sampler: Literal["log_uniform", "uniform"] = "log_uniform",
    ) -> None:
        super().__init__(vocab_size=vocab_size)
        if not 1 <= candidates <= vocab_size:
            raise RecipeError(
                f"candidates is {candidates}; it must be from 1 to the vocabulary's {vocab_size}", path="candidates"
            )
        if sampler not in ("log_uniform", "uniform"):
            raise RecipeError(f"sampler is {sampler!r}; it must be 'log_uniform' or 'uniform'", path="sampler")
        self.candidates = candidates
        rate = torch.ones(vocab_size, dtype=torch.float64)
        if sampler == "log_uniform":
            rank = torch.arange(vocab_size, dtype=torch.float64)
            rate = ((rank + 2) / (rank + 1)).log()
        self.register_buffer("rate", (rate / rate.sum()).float(), persistent=False)

    def forward(
        self, hidden: Float[Tensor, "B P D"], readout: Readout, *, embedding: Float[Tensor, "V D"]
    ) -> LossOutput:
        """Weighted sum over targets. A prediction of weight 0 adds nothing, whatever its hidden state."""
        if not self.training:
            return super().forward(hidden, readout, embedding=embedding)
        return target_loss(self._sampled(hidden.flatten(0, 1), readout.labels.flatten(), embedding), readout)

    def _draw(self) -> tuple[Int[Tensor, " S"], Float[Tensor, " V"]]:
        """Candidates, and the log-chance of every piece to be one.

        Pieces arrive at random times, each at its own rate; the first are taken. That is sampling until there are
        enough distinct ones, without a loop. Given when the first piece left out arrives, ``t``, a piece was taken
        with probability ``1 - exp(-rate t)`` whatever the others did, so that weights ``1 / chance`` are unbiased
        (Duffield et al. 2007, section 2).
        """
        rate = self.rate.float()
        arrival = torch.empty_like(rate).exponential_() / rate
        first = arrival.topk(min(self.candidates + 1, len(rate)), largest=False, sorted=True)
        if self.candidates == len(rate):
            return first.indices, torch.zeros_like(rate)
        return first.indices[:-1], (-torch.expm1(-rate * first.values[-1])).log()

    def _sampled(
        self,
        hidden: Float[Tensor, "N D"],
        labels: Int[Tensor, " N"],
        embedding: Float[Tensor, "V D"],
    ) -> Float[Tensor, " N"]:
        candidates, log_chance = self._draw()
        true = (hidden * embedding[labels]).sum(dim=-1) + self.bias[labels]
        others = linear(hidden, embedding[candidates], self.bias[candidates])  # [N, S]
        true, others = wide(true) - log_chance[labels], wide(others) - log_chance[candidates]
        others = others.masked_fill(labels[:, None] == candidates, -torch.inf)
        return cross_entropy(torch.cat([true[:, None], others], dim=1), torch.zeros_like(labels), reduction="none")
