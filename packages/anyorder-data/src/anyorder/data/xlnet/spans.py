"""XLNet's targets as released: spans beside their context, then single tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool
from numpy import ndarray as Array

from anyorder.core import DataError

from .draws import SpanDraws


@dataclass(frozen=True, kw_only=True)
class OfficialSpans:
    """Targets of one stretch of tokens (``data_utils.py`` ``_sample_mask``), slips included.

    A span of ``n`` has ``n * alpha // beta`` tokens of context, the last of them after it, and is moved right to the
    next piece that begins a word. Meant to end at a word's beginning too, it is in fact ``n`` tokens long, as the
    official code asks of the same piece over and over. A span that would touch the last token ends the search. Missing
    targets are single tokens anywhere, SEP and CLS not excluded.

    Args:
        alpha, beta: context of a span, ``alpha / beta`` tokens for each of its own (``mask_alpha``, ``mask_beta``).
        max_gram: longest span.

    Raises:
        DataError: no room for context.
    """

    alpha: int = 6
    beta: int = 1
    max_gram: int = 5

    def __post_init__(self) -> None:
        if self.beta < 1 or self.alpha < self.beta or self.max_gram < 1:
            raise DataError(
                f"mask_alpha {self.alpha}, mask_beta {self.beta} and max_gram {self.max_gram} leave a span without "
                "context: all must be 1 or more, and mask_alpha at least mask_beta"
            )

    def choose(
        self, starts: Bool[Array, " n"], *, goal: int | None, draws: SpanDraws, backward: bool = False
    ) -> Bool[Array, " n"]:
        """Mark the targets.

        Args:
            starts: whether each piece begins a word.
            goal: how many targets; None for as many as the spans come to.
            draws: the random choices.
            backward: the tokens stand from right to left; spans are sought in the order of the text.
        """
        if backward:
            return self.choose(starts[::-1], goal=goal, draws=draws)[::-1]
        length = len(starts)
        chosen = np.zeros(length, dtype=np.bool_)
        if goal is not None and goal > length:
            raise DataError(f"{goal} targets do not fit {length} tokens: num_predict is too large")
        begins = np.flatnonzero(starts)
        count = place = 0
        while place < length and (goal is None or count < goal):
            size = draws.gram(self.max_gram)
            size = size if goal is None else min(size, goal - count)
            context = size * self.alpha // self.beta
            left = draws.left(context)
            at = int(np.searchsorted(begins, place + left))
            if at == len(begins) or begins[at] + size >= length:
                break
            begin, end = int(begins[at]), int(begins[at]) + size
            chosen[begin:end] = True
            count, place = count + size, end + context - left
        while goal is not None and count < goal:
            at = draws.fill(length)
            count += not chosen[at]
            chosen[at] = True
        return chosen
