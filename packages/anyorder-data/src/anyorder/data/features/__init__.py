"""Inputs for fine-tuning, exactly as the official code lays them out."""

from .alignment import Aligned, align
from .choices import encode_choices, with_option
from .pair import encode_pair
from .row import Row, collate
from .spans import Question, SpanWindow, encode_question, read_squad

__all__ = [
    "Aligned",
    "Question",
    "Row",
    "SpanWindow",
    "align",
    "collate",
    "encode_choices",
    "encode_pair",
    "encode_question",
    "read_squad",
    "with_option",
]
