"""Which tokens are hidden: the same for every model, and readable by each."""

from __future__ import annotations

import torch
from jaxtyping import Bool
from torch import Tensor

from anyorder.core import Draws, TokenBatch

__all__ = ["predictable", "sample_spans"]


def predictable(windows: TokenBatch) -> Bool[Tensor, "N L"]:
    """Text tokens with a token of the same document before them, so that a left-to-right model can predict them."""
    follows = torch.zeros_like(windows.fixed)
    follows[:, 1:] = windows.doc[:, 1:] == windows.doc[:, :-1]
    return follows & ~windows.fixed & ~windows.padding


def sample_spans(windows: TokenBatch, *, length: int, count: int, seed: int, purpose: str) -> Bool[Tensor, "N S L"]:
    """Up to ``count`` spans of ``length`` adjacent tokens of each window, with distinct starts, from its middle half.

    The quarter at either end is never hidden, so that every prediction has context on both sides. Where windows have
    blocks it is the middle half of the last one, which alone may see all of the window; where they have targets, of
    those, which then are a window's last tokens. A window with fewer places gives fewer spans, the rest being empty.
    """
    tokens = windows.length
    free = predictable(windows)
    start = free.clone()
    for offset in range(1, length):
        later = torch.zeros_like(free)
        later[:, : tokens - offset] = free[:, offset:]
        start &= later
    place = torch.arange(tokens)
    block = torch.zeros_like(windows.ids) if windows.block is None else windows.block
    tail = block == block[:, -1:] if windows.target is None else windows.target
    last = tail.sum(dim=1, keepdim=True)  # [N, 1], its tokens
    margin = last // 4
    start &= (place >= (tokens - last + margin).clamp(min=1)) & (place + length <= tokens - margin)
    key = Draws(seed, rows=windows.rows, purpose=purpose).rand(tokens).masked_fill(~start, torch.inf)
    first = key.argsort(dim=1, stable=True)[:, :count, None]  # [N, S, 1]
    inside = (place >= first) & (place < first + length)
    return inside & start.gather(1, first[..., 0])[..., None]
