"""Held-out windows on which every model is measured."""

from __future__ import annotations

import numpy as np
import torch

from anyorder.core import DataError, TokenBatch

from .corpus import Split
from .stream import Concatenation


def windows(
    split: Split, *, length: int, stride: int | None = None, limit: int | None = None, seed: int = 0
) -> TokenBatch:
    """Windows of ``length`` tokens as rows of one batch, the same for every model that is measured on them.

    A window lies inside one document, so that all of it is context of all of it. Only where no document of the split
    is that long (short reviews), windows are cut from the documents one after another, each token with the number of
    its document, so that none sees another.

    Args:
        stride: from one window of a document to the next; ``length`` by default, so that none overlap.
        limit: draw at most this many, keyed by ``seed``; they keep the order of the text.

    Raises:
        DataError: a split shorter than one window.
    """
    stride = length if stride is None else stride
    for name, value in (("length", length), ("stride", stride), ("limit", 1 if limit is None else limit)):
        if value < 1:
            raise DataError(f"{name} is {value}; it must be at least 1")
    documents = Concatenation.of(split, seed=seed, epoch=0, shuffle=False)
    begins = np.concatenate(
        [
            np.arange(begin, end - length + 1, stride)
            for begin, end in zip(documents.offsets[:-1], documents.offsets[1:], strict=True)
            if end - begin >= length
        ]
        or [np.arange(0, documents.length - length + 1, stride)]
    )
    if len(begins) == 0:
        raise DataError(
            f"the {split.name!r} split has {split.token_count:,} tokens, fewer than one window of {length}; hold more "
            "out (valid_fraction) or take a shorter window"
        )
    if limit is not None and len(begins) > limit:
        chosen = np.random.Generator(np.random.Philox(seed)).choice(len(begins), limit, replace=False)
        begins = begins[np.sort(chosen)]
    ids, doc = (part.reshape(-1, length) for part in documents.gather(begins, np.full_like(begins, length)))
    doc = doc - doc[:, :1]
    word = np.cumsum(split.tokenizer.starts_word[ids], axis=1)
    return TokenBatch.of(
        torch.from_numpy(ids),
        doc=torch.from_numpy(doc),
        fresh=torch.ones(len(ids), dtype=torch.bool),
        word=torch.from_numpy(word),
    )
