"""What a run leaves: its result, and the names of its files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["CHECKPOINTS", "METRICS", "FitResult"]

CHECKPOINTS, METRICS = "checkpoints", "metrics.jsonl"


@dataclass(frozen=True, kw_only=True)
class FitResult:
    """What a run came to.

    Attributes:
        step: steps made in all, those before a resumption included.
        records: the metrics log.
        checkpoint: the last checkpoint.
        seconds: time spent in steps, evaluation and checkpoints left out.
        tokens: new tokens of the corpus that were read.
        peak_memory: in bytes: most memory allocated on the GPU or, without one, the largest resident size of the
            process right after a backward pass.
    """

    step: int
    records: list[dict[str, Any]]
    checkpoint: Path
    seconds: float
    tokens: int
    peak_memory: int

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds if self.seconds else 0.0
