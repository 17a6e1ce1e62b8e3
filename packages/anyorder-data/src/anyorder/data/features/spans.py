"""A question about a paragraph, as windows over the paragraph: SQuAD."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyorder.core import DataError

from ..tokenizer import Tokenizer
from .alignment import Aligned
from .row import SEGMENT_A, SEGMENT_B, SEGMENT_CLS, Row


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question about a paragraph. ``answers`` are characters, (start, length); none if it cannot be answered."""

    name: str
    paragraph: str
    text: str
    answers: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, kw_only=True)
class SpanWindow:
    """One window over a paragraph, with the question after it.

    Attributes:
        row: ``paragraph SEP question SEP CLS``, padded on the right.
        offset: pieces of the paragraph before the window.
        pieces: number of pieces of the paragraph in it; they come first.
        allowed: where an answer may lie: those pieces, and CLS for none.
        cls_index: where CLS stands.
        full_context: for each piece, whether no other window gives it more context on its poorer side.
        start, end: places of the answer in the row, both CLS where the window holds none; None if unlabelled.
    """

    row: Row
    offset: int
    pieces: int
    allowed: tuple[bool, ...]
    cls_index: int
    full_context: tuple[bool, ...]
    start: int | None = None
    end: int | None = None

    @property
    def impossible(self) -> bool:
        """Whether it is known that the window holds no answer."""
        return self.start == self.cls_index

    def text(self, paragraph: Aligned, start: int, end: int) -> str:
        """The paragraph's own text of a span of the window."""
        return paragraph.text[paragraph.first[self.offset + start] : paragraph.last[self.offset + end] + 1]


def read_squad(source: Path | Mapping[str, Any]) -> list[Question]:
    """The questions of a SQuAD 1.1 or 2.0 file, in order.

    Raises:
        DataError: not such a file.
    """
    try:
        document = json.loads(source.read_text(encoding="utf-8")) if isinstance(source, Path) else source
        return [
            Question(
                name=entry["id"],
                paragraph=paragraph["context"],
                text=entry["question"],
                answers=()
                if entry.get("is_impossible")
                else tuple((answer["answer_start"], len(answer["text"])) for answer in entry["answers"]),
            )
            for article in document["data"]
            for paragraph in article["paragraphs"]
            for entry in paragraph["qas"]
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{source if isinstance(source, Path) else 'the data'}: not in SQuAD's format: {error!r}"
        ) from None


def encode_question(
    tokenizer: Tokenizer,
    question: Question,
    *,
    length: int = 512,
    stride: int = 128,
    question_length: int = 64,
    labelled: bool = True,
    paragraph: Aligned | None = None,
) -> list[SpanWindow]:
    """Windows of a question (``run_squad.py`` ``convert_examples_to_features``).

    A window whose part of the paragraph does not hold the whole answer counts as one without an answer.

    Args:
        tokenizer: cuts the texts.
        question: with its paragraph and, for training, its first answer.
        length: tokens of a window.
        stride: pieces between the starts of windows.
        question_length: most tokens of the question, which loses its end.
        labelled: mark the answer.
        paragraph: the paragraph if it is aligned already, for several questions about one.

    Raises:
        DataError: the paragraph cannot be aligned, or there is no room for it.
    """
    vocab = tokenizer.vocab
    asked = tokenizer.encode(question.text)[:question_length]
    room = length - len(asked) - 3
    if room < 1 or stride < 1:
        raise DataError(f"length {length} and stride {stride} leave no room beside a question of {len(asked)} tokens")
    aligned = Aligned.of(tokenizer, question.paragraph) if paragraph is None else paragraph
    answer = aligned.pieces_of(*question.answers[0]) if labelled and question.answers else None
    bounds = windows(len(aligned.ids), room=room, stride=stride)
    found = []
    for number, (begin, stop) in enumerate(bounds):
        size = stop - begin
        row = Row.of(
            [
                (SEGMENT_A, [*aligned.ids[begin:stop], vocab.sep]),
                (SEGMENT_B, [*asked, vocab.sep]),
                (SEGMENT_CLS, [vocab.cls]),
            ],
            length=length,
            pad="right",
        )
        cls_index = size + len(asked) + 2
        start, end = (cls_index, cls_index) if labelled else (None, None)
        if answer is not None and begin <= answer[0] and answer[1] < stop:
            start, end = answer[0] - begin, answer[1] - begin
        found.append(
            SpanWindow(
                row=row,
                offset=begin,
                pieces=size,
                allowed=tuple(place < size or place == cls_index for place in range(length)),
                cls_index=cls_index,
                full_context=tuple(_richest(bounds, piece) == number for piece in range(begin, stop)),
                start=start,
                end=end,
            )
        )
    return found


def windows(count: int, *, room: int, stride: int) -> list[tuple[int, int]]:
    """Begins and stops of windows of at most ``room`` over ``count`` pieces, the last reaching the end."""
    bounds = [(0, min(count, room))]
    while bounds[-1][1] < count:
        begin = bounds[-1][0] + min(room, stride)
        bounds.append((begin, min(count, begin + room)))
    return bounds if count else []


def _richest(bounds: list[tuple[int, int]], piece: int) -> int:
    """The window in which a piece has most context on its poorer side; then a longer and an earlier one is better."""

    def context(number: int) -> float:
        begin, stop = bounds[number]
        return min(piece - begin, stop - 1 - piece) + 0.01 * (stop - begin)

    return max((n for n, (begin, stop) in enumerate(bounds) if begin <= piece < stop), key=context)
