"""Learned vectors of absolute positions and segments, added to the words as in BERT."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from anyorder.core import DataError, Slots


class AbsoluteEmbedding(nn.Module):
    """``E_position + E_segment`` (Devlin et al. 2019, figure 2).

    Positions count in reading order from the segment's start, and memory keeps its layer inputs, so positions of
    remembered tokens are those of their own segment: absolute positions and memory do not go well together.

    Args:
        positions, segments: how many there are; None for no such vectors.
        d_model: width.
    """

    def __init__(self, *, positions: int | None, segments: int | None, d_model: int) -> None:
        super().__init__()
        self.position = None if positions is None else nn.Embedding(positions, d_model)
        self.segment = None if segments is None else nn.Embedding(segments, d_model)

    def forward(self, slots: Slots) -> Float[Tensor, "B N D"] | float:
        """Raise ``DataError`` for a segment longer than the positions. Slots without a segment are of segment 0."""
        total: Tensor | float = 0.0
        if self.position is not None:
            if slots.high > self.position.num_embeddings:
                raise DataError(
                    f"a segment of {slots.high} tokens has no vectors past {self.position.num_embeddings} absolute "
                    "positions; use shorter segments or raise absolute_positions"
                )
            total = total + self.position(slots.position)
        if self.segment is not None:
            segment = torch.zeros_like(slots.position) if slots.segment is None else slots.segment
            total = total + self.segment(segment)
        return total
