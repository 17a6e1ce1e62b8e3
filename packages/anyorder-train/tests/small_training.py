"""A small objective, text with a pattern to learn, and a trainer, for the tests of training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from anyorder.attention import Naive, SegmentBias, TransformerXLBias
from anyorder.core import Draws, TokenBatch, Vocab
from anyorder.losses import CrossEntropy
from anyorder.masks import InPlace, Shift, TwoStream
from anyorder.memory import SegmentMemory
from anyorder.models import TransformerXL
from anyorder.orders import LeftToRight, Permutation, Subset
from anyorder.train.objective import Objective
from anyorder.train.optimizer import AdamW
from anyorder.train.progress import SilentProgress
from anyorder.train.schedule import Schedule
from anyorder.train.trainer import Trainer

VOCAB = Vocab(size=40)
ORDERS = {
    "plm": (Permutation, TwoStream),
    "mlm": (Subset, InPlace),
    "clm": (LeftToRight, Shift),
}


def small_objective(kind: str = "plm", *, dropout: float = 0.0, mem_len: int = 12, seed: int = 1) -> Objective:
    torch.manual_seed(seed)
    order, masks = ORDERS[kind]
    backbone = TransformerXL(
        vocab_size=VOCAB.size,
        n_layer=2,
        d_model=16,
        n_head=2,
        d_inner=32,
        attention=Naive(),
        biases=(TransformerXLBias, SegmentBias),
        dropout=dropout,
        attention_dropout=dropout,
    )
    return Objective(
        order=order(),
        masks=masks(),
        heads={"loss": CrossEntropy(vocab_size=VOCAB.size)},
        backbone=backbone,
        memory=SegmentMemory(mem_len=mem_len),
        vocab=VOCAB,
    )


@dataclass(frozen=True)
class CountingText:
    """Rows that count upwards from a random start, anew every ``restart`` segments."""

    rows: int = 4
    length: int = 12
    restart: int = 5
    purpose: str = "text"

    def batch(self, step: int) -> TokenBatch:
        draws = Draws(0, step // self.restart, rows=self.rows, purpose=self.purpose)
        start = draws.randint(30, 1) + (step % self.restart) * self.length
        ids = 9 + (start + torch.arange(self.length)) % 30
        fresh = torch.full((self.rows,), step % self.restart == 0)
        return TokenBatch.of(ids, fresh=fresh)


def small_fit(folder: Path, **changes: Any) -> Any:
    """Fit the small objective; ``changes`` are arguments of ``Trainer`` or of ``fit``."""
    fit: dict[str, Any] = {
        "optimizer": AdamW(lr=3e-3),
        "schedule": Schedule(warmup=2),
        "seed": 7,
        "folder": folder,
        "progress": SilentProgress(),
    }
    settings: dict[str, Any] = {"steps": 6, "batch_size": 4, "checkpoint_every": 3, "device": "cpu"}
    objective = changes.pop("objective", None) or small_objective()
    data = changes.pop("data", None) or CountingText()
    for key, value in changes.items():
        (fit if key in {*fit, "tracker", "resume", "valid", "fingerprint"} else settings)[key] = value
    return Trainer(**settings).fit(objective, data, **fit)
