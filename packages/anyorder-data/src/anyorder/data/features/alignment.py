"""Which character of a text each character of its pieces stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anyorder.core import DataError

from ..text import clean
from ..tokenizer import SPACE, Tokenizer

_NONE, _SKIP_TEXT, _SKIP_PIECES, _MATCH = range(4)
_ENOUGH = 0.8  # of the text's characters that must be found again


@dataclass(frozen=True, kw_only=True)
class Aligned:
    """A text, its pieces, and the way from one to the other and back.

    Attributes:
        text: as it was given.
        ids: of its pieces.
        first, last: the character of the text with which each piece begins and ends.
        forth: for each character of the text its place in the joined pieces, None where it was cleaned away.
        owner: the piece of each character of the joined pieces.
    """

    text: str
    ids: tuple[int, ...]
    first: tuple[int, ...]
    last: tuple[int, ...]
    forth: tuple[int | None, ...]
    owner: tuple[int, ...]

    @classmethod
    def of(cls, tokenizer: Tokenizer, text: str) -> Aligned:
        """Cut and align a text (``run_squad.py`` ``convert_examples_to_features``).

        Raises:
            DataError: the text cannot be found again in its pieces.
        """
        pieces, ids = tokenizer.pieces(text), tokenizer.encode(text)
        joined = "".join(pieces).replace(SPACE, " ")
        forth, back = align(
            [_character(tokenizer, character) for character in text], joined, name=f"the text {text[:40]!r}"
        )
        owner = [index for index, piece in enumerate(pieces) for _ in piece]
        starts = [sum(map(len, pieces[:index])) for index in range(len(pieces))]
        ends = [start + len(piece) - 1 for start, piece in zip(starts, pieces, strict=True)]
        return cls(
            text=text,
            ids=tuple(ids),
            first=tuple(nearest(back, place, size=len(text), begins=True) for place in starts),
            last=tuple(nearest(back, place, size=len(text), begins=False) for place in ends),
            forth=tuple(forth),
            owner=tuple(owner),
        )

    def pieces_of(self, start: int, length: int) -> tuple[int, int]:
        """The first and last piece of ``length`` characters of the text from ``start``."""
        begin = self.owner[nearest(self.forth, start, begins=True)]
        return begin, self.owner[nearest(self.forth, start + length - 1, begins=False)]


def align(
    characters: Sequence[str], joined: str, *, name: str = "the text"
) -> tuple[list[int | None], list[int | None]]:
    """The longest common subsequence of a text and its joined pieces, near the diagonal.

    Args:
        characters: of the text, each cleaned up by itself.
        joined: the pieces, with spaces.
        name: what to call the text in an error.

    Returns:
        for each character of the text its place in the pieces, and the other way round; None where there is none.

    Raises:
        DataError: less than four fifths of the text are found, in a band of twice the first width too.
    """
    width = abs(len(characters) - len(joined)) + 5
    found, moves = _common(characters, joined, width)
    if not found > _ENOUGH * len(characters):
        width *= 2
        found, moves = _common(characters, joined, width)
    if not found or found < _ENOUGH * len(characters):
        raise DataError(
            f"{name} cannot be aligned with its pieces: {found} of {len(characters)} characters are found again; "
            "was it cleaned up in another way?"
        )
    forth: list[int | None] = [None] * len(characters)
    back: list[int | None] = [None] * len(joined)
    i, j = len(characters) - 1, len(joined) - 1
    while i >= 0 and j >= 0:
        move = moves[i][j - i + width] if 0 <= j - i + width < 2 * width else _NONE
        if move == _NONE:
            break
        if move == _MATCH:
            forth[i], back[j] = j, i
        i -= move != _SKIP_PIECES
        j -= move != _SKIP_TEXT
    return forth, back


def _common(characters: Sequence[str], joined: str, width: int) -> tuple[int, list[list[int]]]:
    """Length of the longest common subsequence in the band ``i - width <= j < i + width``, and the moves to it.

    Column ``c`` of row ``i`` is character ``j = i - width + c`` of the pieces. Where several are the longest, the
    last character of the pieces is skipped last, as in the official code, so that the same ones match.
    """
    before = [0] * (2 * width + 1)  # one more than the band: beyond it nothing is found
    moves: list[list[int]] = []
    for i, character in enumerate(characters):
        row, steps = [0] * (2 * width + 1), [_NONE] * (2 * width)
        for c in range(max(0, width - i), min(2 * width, len(joined) - i + width)):
            j = i - width + c
            best, step = (before[c + 1], _SKIP_TEXT) if i else (0, _NONE)
            if c and j and row[c - 1] > best:
                best, step = row[c - 1], _SKIP_PIECES
            diagonal = before[c] if i and j else 0
            if diagonal + 1 > best and character == joined[j]:
                best, step = diagonal + 1, _MATCH
            row[c], steps[c] = best, step
        before = row
        moves.append(steps)
    column = len(joined) - len(characters) + width
    return (before[column] if characters and joined else 0), moves


def nearest(places: Sequence[int | None], at: int, *, begins: bool, size: int | None = None) -> int:
    """Where something begins or ends whose own place may be None: as far out as the places around it allow.

    Args:
        places: of which at least one is not None.
        at: whose place is wanted.
        begins: the first place after what comes before, else the last before what comes after.
        size: number of places there are, for what stands after the last known one.
    """
    here = places[at]
    if here is not None:
        return here
    before = next((place for place in reversed(places[:at]) if place is not None), None)
    after = next((place for place in places[at + 1 :] if place is not None), None)
    if before is None:
        assert after is not None, "nothing is aligned"
        return 0 if begins else max(after - 1, 0)
    if after is None:
        if size is None or before >= size - 1:
            return before
        return before + 1 if begins else size - 1
    if after > before + 1:
        return before + 1 if begins else after - 1
    return after if begins else before


def _character(tokenizer: Tokenizer, character: str) -> str:
    if tokenizer.style == "plain":
        return character.lower() if tokenizer.lower else character
    return clean(character, lower=tokenizer.lower, keep_accents=tokenizer.keep_accents, collapse_space=False)
