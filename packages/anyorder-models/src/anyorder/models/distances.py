"""Sinusoids of relative distances, one table for all layers of a step."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from anyorder.core import Dropout, LastValue, Slots


class Distances(nn.Module):
    """Encodes ``reader - key`` distances as ``[sin; cos]`` halves (``modeling.py`` ``relative_positional_encoding``).

    Args:
        d_model: width of a code.
        clamp_len: distances beyond it, either way, count as it; None leaves them.
        dropout: applied to the codes, hence the same for every layer of a step.
    """

    def __init__(self, *, d_model: int, clamp_len: int | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        self.d_model, self.clamp_len = d_model, clamp_len
        self.drop = Dropout(dropout)
        self._last = LastValue()

    def forward(self, readers: Slots, keys: Slots, *, dtype: torch.dtype) -> Float[Tensor, "G N D"]:
        """Every distance between readers and keys, the greatest first.

        Column ``c`` is distance ``readers.high - keys.low - c``; column 0 is one more than the greatest, which the
        relative shift needs. ``G`` is 1, or 2 where rows may read right to left: their distances are negated.
        """
        table = self._last.of(
            lambda: self._table(readers, keys, dtype=dtype),
            *(readers.high, readers.low, keys.high, keys.low, dtype, readers.position.device),
            readers.direction is None,
        )
        encoded: Tensor = self.drop(table)
        return encoded

    def _table(self, readers: Slots, keys: Slots, *, dtype: torch.dtype) -> Tensor:
        count = (readers.high - readers.low) + (keys.high - keys.low)
        device, exact = readers.position.device, torch.float64
        columns = torch.arange(count, device=device, dtype=exact)
        distance = float(readers.high - keys.low) - columns
        if self.clamp_len is not None:
            distance = distance.clamp(-self.clamp_len, self.clamp_len)
        inverse_frequency = 10000.0 ** (-torch.arange(0, self.d_model, 2, device=device, dtype=exact) / self.d_model)
        angle = distance[:, None] * inverse_frequency
        forwards = torch.cat([angle.sin(), angle.cos()], dim=-1)
        if readers.direction is None:
            return forwards[None].to(dtype)
        return torch.stack([forwards, torch.cat([-angle.sin(), angle.cos()], dim=-1)]).to(dtype)
