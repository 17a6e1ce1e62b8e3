"""Held-out windows laid out as the training rows are."""

from __future__ import annotations

from dataclasses import replace

import torch

from anyorder.core import TokenBatch
from anyorder.data import windows

from ..rows import TextRows

__all__ = ["held_out_windows"]


def held_out_windows(
    data: TextRows, *, limit: int, seed: int = 0, length: int | None = None, tail: int | None = None
) -> TokenBatch:
    """Up to ``limit`` windows of held-out text, as long as a training segment and with its blocks.

    Where training re-reads the tail of each segment, no earlier token of a segment ever saw that tail; nor does it
    here. What is hidden lies in the tail, which sees all of the window.

    Args:
        length: tokens of a window, at most a segment's: it is then like a segment's end.
        tail: hide only in so many tokens at the end, so that models with other blocks are asked about the same
            tokens; at most the tail of ``data``, which is the default.

    Raises:
        DataError: less held-out text than one window.
    """
    length = data.train.length if length is None else length
    own = min(length, data.train.last_block)
    tail = own if tail is None else tail
    assert tail <= own, (tail, own)
    found = windows(data.corpus.split("valid"), length=length, limit=limit, seed=seed)
    left = length - torch.arange(length).expand(found.rows, -1)  # [N, L]
    if own < length:
        found = replace(found, block=(left <= own).long())
    return found if tail == own else replace(found, target=left <= tail)
