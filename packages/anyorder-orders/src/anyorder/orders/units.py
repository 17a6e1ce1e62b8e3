"""Numbering the units, tokens or whole words, that spans are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.functional import pad

from anyorder.core import DataError, TokenBatch

Unit = Literal["words", "tokens"]


@dataclass(frozen=True, kw_only=True)
class Units:
    """The units of each row, padding left out.

    Attributes:
        number: unit of each token, from 0; a fixed token is a unit of its own. Meaningless at padding.
        count: units of each row.
        run: a number that changes at each fixed token and each end of a document: what a span may not cross.
    """

    number: Int[Tensor, "B L"]
    count: Int[Tensor, "B 1"]
    run: Int[Tensor, "B L"]

    @classmethod
    def of(cls, batch: TokenBatch, unit: Unit) -> Units:
        """Number the tokens or the words of a batch.

        Raises:
            DataError: words are asked for and the batch does not know them.
        """
        fixed = batch.fixed | batch.padding
        edge = pad(fixed[:, 1:] | fixed[:, :-1] | (batch.doc[:, 1:] != batch.doc[:, :-1]), (1, 0), value=True)  # [B, L]
        begins = torch.ones_like(edge)
        if unit == "words":
            if batch.word is None:
                raise DataError(
                    "unit 'words' needs to know where words begin, and this data does not say: "
                    "set unit to 'tokens', or prepare the corpus with word borders"
                )
            begins = edge | pad(batch.word[:, 1:] != batch.word[:, :-1], (1, 0), value=True)
        numbers = (begins & ~batch.padding).cumsum(dim=1)
        return cls(number=(numbers - 1).clamp(min=0), count=numbers[:, -1:].clamp(min=1), run=edge.cumsum(dim=1))
