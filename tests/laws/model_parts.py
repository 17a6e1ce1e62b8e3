"""Small real parts that the laws are checked on."""

from __future__ import annotations

import torch

from anyorder.attention import Naive, SegmentBias, TransformerXLBias
from anyorder.core import AttentionBackend, LossHead, MaskBuilder, Memory, OrderSampler, Vocab
from anyorder.losses import CrossEntropy
from anyorder.models import TransformerXL
from anyorder.train.objective import Objective

VOCAB = Vocab(size=40)


def tiny_model(backend: AttentionBackend | None = None, *, seed: int = 0, **changes: object) -> TransformerXL:
    """Three layers in float64, weights large enough that every term matters."""
    torch.manual_seed(seed)
    sizes = {"n_layer": 3, "d_model": 16, "n_head": 2, "d_inner": 32, "init_std": 0.3, "dropout": 0.0}
    model = TransformerXL(
        vocab_size=VOCAB.size,
        attention=backend or Naive(),
        biases=(TransformerXLBias, SegmentBias),
        attention_dropout=0.0,
        **(sizes | changes),
    )
    return model.double().eval()


def tiny_objective(
    order: OrderSampler, masks: MaskBuilder, *, memory: Memory | None = None, backend: AttentionBackend | None = None
) -> Objective:
    heads: dict[str, LossHead] = {"loss": CrossEntropy(vocab_size=VOCAB.size).double()}
    return Objective(order=order, masks=masks, heads=heads, backbone=tiny_model(backend), vocab=VOCAB, memory=memory)


def tokens(rows: int, length: int, *, seed: int = 0) -> torch.Tensor:
    """Ordinary pieces, no control ids."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(9, VOCAB.size, (rows, length), generator=generator)
