"""A text or a pair of texts for classification and regression."""

from __future__ import annotations

from collections.abc import Sequence

from anyorder.core import DataError

from ..tokenizer import Tokenizer
from .row import SEGMENT_A, SEGMENT_B, SEGMENT_CLS, Row


def encode_pair(tokenizer: Tokenizer, text: str, pair: str | None = None, *, length: int) -> Row:
    """``A SEP CLS`` or ``A SEP B SEP CLS``, padded on the left (``classifier_utils.py`` ``convert_single_example``).

    What is too long loses its end; of a pair, token by token, the longer one does, B if they are equal.

    Args:
        tokenizer: cuts the texts.
        text, pair: A and B. An empty B is none.
        length: tokens in all.

    Raises:
        DataError: ``length`` leaves no room for text.
    """
    vocab = tokenizer.vocab
    a, b = tokenizer.encode(text), tokenizer.encode(pair) if pair is not None else []
    room = length - (3 if b else 2)
    if room < 1:
        raise DataError(f"a length of {length} leaves no room for text beside SEP and CLS")
    keep_a, keep_b = fit(a, b, room=room)
    parts = [(SEGMENT_A, [*a[:keep_a], vocab.sep])]
    if b:
        parts.append((SEGMENT_B, [*b[:keep_b], vocab.sep]))
    return Row.of([*parts, (SEGMENT_CLS, [vocab.cls])], length=length, pad="left")


def fit(a: Sequence[int], b: Sequence[int], *, room: int) -> tuple[int, int]:
    """How many tokens of A and B are kept."""
    keep_a, keep_b = len(a), len(b)
    over = keep_a + keep_b - room
    if over <= 0:
        return keep_a, keep_b
    # the longer one alone, until they are equal; then in turn, B first
    level = min(over, abs(keep_a - keep_b))
    if keep_a > keep_b:
        keep_a -= level
    else:
        keep_b -= level
    rest = over - level
    return keep_a - rest // 2, keep_b - (rest + 1) // 2
