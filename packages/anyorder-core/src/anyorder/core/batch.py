"""What the data hands to an objective: tokens in their natural order, and what is known about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from .errors import DataError
from .struct import TensorStruct

PADDING_DOC = -1


@dataclass(frozen=True, kw_only=True)
class TokenBatch(TensorStruct):
    """One segment of every row. Tokens are never shuffled; an order is a matter of what may see what.

    Attributes:
        ids: token ids.
        doc: document of each token, ``-1`` for padding. Tokens of two documents never see each other, so a
            pipeline in which they may (as in XLNet) gives a whole row one number.
        fixed: tokens that are never a target: separators, the classification token, padding.
        fresh: the row starts anew, so its memory is dropped before this segment.
        direction: ``+1``, or ``-1`` for a row whose tokens stand in right-to-left order; None if all read forwards.
        segment: segment ids, of which only equality matters, or None where there is one segment.
        word: tokens of one word share a number that differs from their neighbours', or None if unknown.
        block: non-decreasing from 0. No token sees a later block. A pipeline that re-reads the tail of each
            segment marks that tail as block 1, so that what memory keeps knows nothing of it
            (XLNet's two halves, ``data_utils.py`` ``_local_perm`` called once a half).
        target: tokens that the data chose to predict (XLNet's records), for an order that takes them but for
            the fixed ones among them; None if an order chooses its own.
        labels: labels of whole rows, ``[B]`` each, for heads that ride along (``next_sentence``,
            ``sentence_order``).
    """

    ids: Int[Tensor, "B L"]
    doc: Int[Tensor, "B L"]
    fixed: Bool[Tensor, "B L"]
    fresh: Bool[Tensor, " B"]
    direction: Int[Tensor, " B"] | None = None
    segment: Int[Tensor, "B L"] | None = None
    word: Int[Tensor, "B L"] | None = None
    block: Int[Tensor, "B L"] | None = None
    target: Bool[Tensor, "B L"] | None = None
    labels: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return self.ids.shape[0]

    @property
    def length(self) -> int:
        return self.ids.shape[1]

    @property
    def padding(self) -> Bool[Tensor, "B L"]:
        return self.doc < 0

    @classmethod
    def of(
        cls,
        ids: Int[Tensor, "B L"],
        *,
        doc: Int[Tensor, "B L"] | None = None,
        fixed: Bool[Tensor, "B L"] | None = None,
        direction: Int[Tensor, " B"] | None = None,
        fresh: Bool[Tensor, " B"] | None = None,
        segment: Int[Tensor, "B L"] | None = None,
        word: Int[Tensor, "B L"] | None = None,
        block: Int[Tensor, "B L"] | None = None,
        target: Bool[Tensor, "B L"] | None = None,
        labels: Mapping[str, Tensor] | None = None,
    ) -> TokenBatch:
        """Fill in what is usual: one document, nothing fixed but padding, left to right, no fresh row."""
        rows = ids.shape[0]
        doc = torch.zeros_like(ids) if doc is None else doc
        return cls(
            ids=ids,
            doc=doc,
            fixed=doc < 0 if fixed is None else fixed,
            direction=direction,
            fresh=torch.zeros(rows, dtype=torch.bool, device=ids.device) if fresh is None else fresh,
            segment=segment,
            word=word,
            block=block,
            target=target,
            labels={} if labels is None else labels,
        )

    def check(self, *, vocab_size: int) -> None:
        """Raise ``DataError`` where the batch is empty, cannot be embedded or contradicts itself."""
        if self.ids.numel() == 0:
            raise DataError(f"the batch is empty: {self.rows} rows of {self.length} tokens; both must be at least 1")
        low, high = int(self.ids.min()), int(self.ids.max())
        if low < 0 or high >= vocab_size:
            worst = low if low < 0 else high
            row, column = (int(i) for i in (self.ids == worst).nonzero()[0])
            raise DataError(
                f"token id {worst} at row {row}, position {column} is outside the vocabulary of {vocab_size}; "
                "was the corpus prepared with another tokenizer?"
            )
        if bool((self.padding & ~self.fixed).any()):
            raise DataError("padding must be fixed: a padding token can never be a target")
        if self.block is not None and bool((self.block.diff(dim=1) < 0).any()):
            raise DataError("block numbers must not decrease along a row")
