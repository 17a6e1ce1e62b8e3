"""Targets that come with the data."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Bool, Int
from torch import Tensor

from anyorder.core import DataError, Draws, TokenBatch

from .checks import require_at_least


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """Predict what the data chose beforehand, so that only the order is drawn anew.

    This is how XLNet was trained: targets are written into the records, and reading them draws an order
    (``data_utils.py`` ``get_dataset``).

    Args:
        num_predict: the most targets a row; None for the length of the row, where the data chose without a goal.

    Raises:
        RecipeError: a value out of range.
    """

    num_predict: int | None = None

    def __post_init__(self) -> None:
        if self.num_predict is not None:
            require_at_least("num_predict", self.num_predict, 1)

    def num_targets(self, length: int) -> int:
        return length if self.num_predict is None else min(length, self.num_predict)

    def choose(self, batch: TokenBatch, order: Int[Tensor, "B L"], *, generator: Draws) -> Bool[Tensor, "B L"]:
        """The batch's own targets, fixed tokens left out, as the official parser does with SEP and CLS.

        Raises:
            DataError: the batch has none.
        """
        if batch.target is None:
            raise DataError(
                "targets of type 'recorded' stand in the data, and this data chose none: use data of type "
                "'xlnet_records', or targets of another type such as 'ngram_spans'"
            )
        return batch.target & ~batch.fixed & ~batch.padding
