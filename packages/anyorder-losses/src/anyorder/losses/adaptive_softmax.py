"""Softmax in two steps, first a frequent piece or a cluster of rare ones, for large vocabularies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear

from anyorder.core import TARGETS, LossOutput, Readout, RecipeError, Streams, TokenBatch

from .row_loss import wide
from .target_loss import target_loss


class AdaptiveSoftmax(nn.Module):
    """Adaptive softmax (Grave et al. 2017, section 4.2), tied to the word embedding.

    Ids under the first cutoff are the head; those from one cutoff to the next are a cluster, which the head has one
    vector for. A piece of the head has its head probability, one of a cluster ``P(cluster) P(piece | cluster)``, and a
    cluster's logits are computed only for the predictions whose label is in it. Ids must come by falling frequency,
    as tokenizers of sentencepiece give them.

    Pieces' vectors are the embedding's, as in Transformer-XL (``ProjectedAdaptiveLogSoftmax`` with ``div_val`` 1), so
    rare pieces are as wide as others. It is ``torch.nn.AdaptiveLogSoftmaxWithLoss`` with ``div_value`` 1, no
    projections, and biases. Biases start so that an untrained model gives a cluster the probability of its pieces.

    Args:
        vocab_size: number of pieces.
        d_model: width of the hidden states.
        cutoffs: ids at which clusters begin, ascending; the last cluster ends with the vocabulary.

    Raises:
        RecipeError: cutoffs that do not ascend, or are outside the vocabulary.
    """

    def __init__(self, *, vocab_size: int, d_model: int, cutoffs: Sequence[int]) -> None:
        super().__init__()
        bounds = [0, *cutoffs, vocab_size]
        if not cutoffs or any(low >= high for low, high in pairwise(bounds)):
            raise RecipeError(
                f"cutoffs is {list(cutoffs)}; it must be ids that ascend, from 1 to {vocab_size - 1} (the vocabulary "
                f"has {vocab_size})",
                path="cutoffs",
            )
        self.cutoffs, self.vocab_size = tuple(cutoffs), vocab_size
        self.token_bias = nn.Parameter(torch.zeros(vocab_size))
        self.cluster = nn.Linear(d_model, len(self.cutoffs))
        nn.init.zeros_(self.cluster.weight)
        with torch.no_grad():
            self.cluster.bias.copy_(torch.tensor([end - begin for begin, end in self._clusters()]).log())

    def readout(self, batch: TokenBatch, streams: Streams) -> Readout:
        return streams.readouts[TARGETS]

    def logits(self, hidden: Float[Tensor, "... D"], *, embedding: Float[Tensor, "V D"]) -> Float[Tensor, "... V"]:
        """Log-probabilities of the whole vocabulary: their exponentials add up to 1."""
        head = self._head(hidden, embedding)
        parts = [head[..., : self.cutoffs[0]]]
        for number, (begin, end) in enumerate(self._clusters()):
            chosen = head[..., self.cutoffs[0] + number, None]
            parts.append(chosen + self._log_softmax(hidden, embedding, begin, end))
        return torch.cat(parts, dim=-1)

    def forward(
        self, hidden: Float[Tensor, "B P D"], readout: Readout, *, embedding: Float[Tensor, "V D"]
    ) -> LossOutput:
        """Weighted sum over targets. A prediction of weight 0 adds nothing, whatever its hidden state."""
        return target_loss(self._losses(hidden.flatten(0, 1), readout.labels.flatten(), embedding), readout)

    def _losses(
        self, hidden: Float[Tensor, "N D"], labels: Int[Tensor, " N"], embedding: Float[Tensor, "V D"]
    ) -> Float[Tensor, " N"]:
        head = self._head(hidden, embedding)
        cutoffs = torch.tensor(self.cutoffs, device=labels.device)
        cluster = torch.bucketize(labels, cutoffs, right=True)  # 0: the head itself
        place = torch.where(cluster == 0, labels, self.cutoffs[0] + cluster - 1)
        found = head.gather(1, place[:, None])[:, 0]
        for number, (begin, end) in enumerate(self._clusters(), start=1):
            here = (cluster == number).nonzero()[:, 0]
            within = self._log_softmax(hidden[here], embedding, begin, end)
            found = found.index_add(0, here, within.gather(1, labels[here, None] - begin)[:, 0])
        return -found

    def _head(self, hidden: Float[Tensor, "... D"], embedding: Float[Tensor, "V D"]) -> Float[Tensor, "... H"]:
        """Log-probabilities of the frequent pieces, then of the clusters."""
        pieces = linear(hidden, embedding[: self.cutoffs[0]], self.token_bias[: self.cutoffs[0]])
        return wide(torch.cat([pieces, self.cluster(hidden)], dim=-1)).log_softmax(dim=-1)

    def _log_softmax(
        self, hidden: Float[Tensor, "... D"], embedding: Float[Tensor, "V D"], begin: int, end: int
    ) -> Float[Tensor, "... C"]:
        return wide(linear(hidden, embedding[begin:end], self.token_bias[begin:end])).log_softmax(dim=-1)

    def _clusters(self) -> Iterator[tuple[int, int]]:
        return pairwise([*self.cutoffs, self.vocab_size])
