"""Sentence-order prediction: which of two neighbouring segments comes first in the text?"""

from __future__ import annotations

from .sentence_pair import SentencePair


class SentenceOrder(SentencePair):
    """Class 0 where two neighbours stand in the text's order, 1 where they have changed places (ALBERT section 3.1)."""

    label = "sentence_order"
    needs = "data.layout to 'pairs' and data.negatives to 'swapped'"
