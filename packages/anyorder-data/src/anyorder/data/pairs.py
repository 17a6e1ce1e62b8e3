"""Two sentences runs A and B after the reuse part, as XLNet's pretraining data has them, or ALBERT's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from jaxtyping import Int
from numpy import ndarray as Array

SEGMENT_A, SEGMENT_B, SEGMENT_CLS = 0, 1, 2
FUNCTIONAL = 3  # SEP after A, SEP after B, CLS
PAIR_LABELS = {"random": "next_sentence", "swapped": "sentence_order"}
"""What pairs are labelled with, by the kind of their negatives."""


class Text(Protocol):
    """What a pair is cut from (``Stream``)."""

    @property
    def length(self) -> int: ...

    def border_after(self, place: int) -> int: ...

    def border_before(self, place: int) -> int: ...

    def borders(self, begin: int, end: int) -> Int[Array, " n"]: ...


class PairDraws(Protocol):
    """The random choices of one pair, in the order in which they are asked for."""

    def negative(self) -> bool: ...

    def choice(self, count: int) -> int: ...

    def place(self, count: int) -> int: ...


@dataclass(frozen=True)
class Pair:
    """Places of A and B in a text; ``follows`` if B is what comes after A."""

    a: tuple[int, int]
    b: tuple[int, int]
    follows: bool


def split_pair(text: Text, *, begin: int, total: int, draws: PairDraws) -> Pair:
    """Cut A and B of ``total`` tokens in all (``data_utils.py`` ``_split_a_and_b``).

    A starts at ``begin`` and ends at a sentence border drawn among those in its first ``total`` tokens. With
    probability one half, or where there is no border, B is whole sentences around a place drawn anywhere in the text;
    otherwise it is what follows A. The longer of the two then loses tokens at its end, one by one, B if they are equal.

    Requires ``begin + total < text.length``.
    """
    assert begin + total < text.length, (begin, total, text.length)
    end = text.border_after(begin + total)
    cuts = text.borders(begin, begin + total)
    if len(cuts) == 0 or draws.negative():
        follows = False
        a_end = int(cuts[draws.choice(len(cuts))]) if len(cuts) else end
        wanted = max(1, total - (a_end - begin))
        start = draws.place(text.length - wanted)  # the last place of the text is never B's end: it has no next token
        b_begin = text.border_before(start)
        b_end = min(text.border_after(start + wanted), text.length - 1)
    else:
        follows = True
        a_end = int(cuts[draws.choice(len(cuts))])
        b_begin, b_end = a_end, end
    a_length, b_length = trim(a_end - begin, b_end - b_begin, total)
    return Pair((begin, begin + a_length), (b_begin, b_begin + b_length), follows)


def swap_pair(text: Text, *, begin: int, total: int, draws: PairDraws) -> Pair:
    """Cut two neighbours of ``total`` tokens in all, which change places with probability one half (ALBERT, 3.1).

    The text is cut at a sentence border drawn among those within it, or at any token where it has none.

    Requires ``begin + total <= text.length`` and two tokens.
    """
    assert begin + total <= text.length, (begin, total, text.length)
    cuts = text.borders(begin, begin + total)
    cut = int(cuts[draws.choice(len(cuts))]) if len(cuts) else begin + 1 + draws.choice(total - 1)
    first, second = (begin, cut), (cut, begin + total)
    return Pair(second, first, follows=False) if draws.negative() else Pair(first, second, follows=True)


def trim(a: int, b: int, total: int) -> tuple[int, int]:
    """Lengths after dropping one token at a time from the longer, B if they are equal, until the sum is ``total``."""
    excess = a + b - total
    if excess <= 0:
        return a, b
    lead = min(excess, abs(a - b))
    a, b = (a - lead, b) if a > b else (a, b - lead)
    excess -= lead
    return a - excess // 2, b - (excess + 1) // 2


def segments(*, reuse: int, a: int, b: int) -> Int[Array, " L"]:
    """Segment ids of ``[reuse | A | SEP | B | SEP | CLS]``."""
    return np.repeat([SEGMENT_A, SEGMENT_B, SEGMENT_CLS], [reuse + a + 1, b + 1, 1]).astype(np.int64)
