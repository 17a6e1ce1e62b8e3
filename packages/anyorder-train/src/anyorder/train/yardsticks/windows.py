"""Held-out windows laid out as the training rows are."""

from __future__ import annotations

from dataclasses import replace

import torch

from anyorder.core import TokenBatch
from anyorder.data import windows

from ..rows import TextRows

__all__ = ["held_out_windows"]


def held_out_windows(data: TextRows, *, limit: int, seed: int = 0) -> TokenBatch:
    """Up to ``limit`` windows of held-out text, as long as a training segment and with its blocks.

    Where training re-reads the tail of each segment, no earlier token of a segment ever saw that tail; nor does it
    here. What is hidden lies in the tail, which sees all of the window.

    Raises:
        DataError: less held-out text than one window.
    """
    length, stride = data.train.length, data.train.stride
    found = windows(data.corpus.split("valid"), length=length, limit=limit, seed=seed)
    if stride >= length:
        return found
    return replace(found, block=(torch.arange(length) >= stride).long().expand(found.rows, -1).contiguous())
