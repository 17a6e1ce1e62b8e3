"""A text and several answers to a question about it: multiple choice, as in RACE."""

from __future__ import annotations

from collections.abc import Sequence

from anyorder.core import DataError

from ..tokenizer import Tokenizer
from .row import SEGMENT_A, SEGMENT_B, SEGMENT_CLS, Row


def with_option(question: str, option: str) -> str:
    """The question with an option put into its blanks (``_``), or after it where it has none."""
    return question.replace("_", option) if "_" in question else f"{question} {option}"


def encode_choices(
    tokenizer: Tokenizer, context: str, answers: Sequence[str], *, length: int, answer_length: int = 128
) -> list[Row]:
    """``context SEP answer SEP CLS`` for each answer, padded on the left (``run_race.py`` ``convert_single_example``).

    Too long an answer keeps its end, the context then loses its own end. The official code has one list stand for the
    context and for what it appends to it, so that, where the context is short, each answer's sequence holds all
    answers before it; here each has its own.

    Args:
        tokenizer: cuts the texts.
        context: what the question is about.
        answers: questions with their options (:func:`with_option`).
        length: tokens of each row.
        answer_length: most tokens of an answer.

    Raises:
        DataError: ``length`` leaves no room for the context.
    """
    vocab = tokenizer.vocab
    if length - 3 < answer_length + 1:
        raise DataError(f"a length of {length} leaves no room for context beside answers of {answer_length}")
    text = tokenizer.encode(context)
    rows = []
    for answer in answers:
        cut = tokenizer.encode(answer)[-answer_length:]
        parts = [
            (SEGMENT_A, [*text[: length - 3 - len(cut)], vocab.sep]),
            (SEGMENT_B, [*cut, vocab.sep]),
            (SEGMENT_CLS, [vocab.cls]),
        ]
        rows.append(Row.of(parts, length=length, pad="left"))
    return rows
