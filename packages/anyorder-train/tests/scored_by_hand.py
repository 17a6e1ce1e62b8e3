"""Small models in float64, and what they say of a token, computed with nothing of the yardsticks' code."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from anyorder.attention import Naive, SegmentBias, TransformerXLBias
from anyorder.core import Draws, LossHead, MaskBuilder, OrderSampler, Plan, TokenBatch, Vocab
from anyorder.losses import CrossEntropy
from anyorder.masks import InPlace, Shift, TwoStream
from anyorder.models import TransformerXL
from anyorder.orders import LeftToRight, Permutation, Subset
from anyorder.train.objective import Objective

TEXT = 4
VOCAB = Vocab(size=9 + TEXT)
"""Few pieces, so that sums over all texts are short."""


def make(order: OrderSampler, masks: MaskBuilder, **heads: LossHead) -> Objective:
    """An objective with two layers and random weights; ``heads`` ride along."""
    torch.manual_seed(3)
    backbone = TransformerXL(
        vocab_size=VOCAB.size,
        n_layer=2,
        d_model=16,
        n_head=2,
        d_inner=32,
        attention=Naive(),
        biases=[TransformerXLBias, SegmentBias],
        init_std=0.5,
    )
    heads = {"loss": CrossEntropy(vocab_size=VOCAB.size), **heads}
    return Objective(order=order, masks=masks, heads=heads, backbone=backbone, vocab=VOCAB).double()


def plm() -> Objective:
    return make(Permutation(), TwoStream())


def mlm() -> Objective:
    return make(Subset(), InPlace())


def clm() -> Objective:
    return make(LeftToRight(), Shift())


def text(rows: int, length: int, *, seed: int = 1) -> Tensor:
    """``[rows, length]`` random ids of text."""
    return torch.randint(9, VOCAB.size, (rows, length), generator=torch.Generator().manual_seed(seed))


def log_probabilities(
    objective: Objective,
    ids: Tensor,
    place: int,
    *,
    time: Sequence[int],
    targets: Collection[int],
    unseen: Sequence[int],
) -> Tensor:
    """``log p(. | what time says)`` of every piece at one place of one row.

    What must not be seen is overwritten first, so that the number cannot come from there.
    """
    shown = ids.clone()
    shown[list(unseen)] = 9 + (ids[list(unseen)] - 9 + 1) % TEXT
    assert (shown != ids).sum() == len(unseen)
    target = torch.zeros(1, len(ids), dtype=torch.bool)
    target[0, list(targets)] = True
    objective.eval()
    streams = objective.masks.scoring().build(
        TokenBatch.of(shown[None]),
        Plan.of(torch.tensor([list(time)]), target),
        vocab=VOCAB,
        num_targets=len(ids),
        generator=Draws(0, rows=1),
    )
    with torch.no_grad():
        readout = streams.readouts["targets"]
        states = readout.gather(objective.backbone(streams).stream(readout.stream))
        logits = objective.heads["loss"].logits(states, embedding=objective.embedding)
    return logits[0, sorted(targets).index(place)].log_softmax(-1)
