"""Next-sentence prediction: does segment B follow segment A in the text?"""

from __future__ import annotations

from .sentence_pair import SentencePair


class NextSentence(SentencePair):
    """Class 1 where B is what follows A, 0 where it is from anywhere (BERT section 3.1, task 2)."""

    label = "next_sentence"
    needs = "data.layout to 'pairs'"
