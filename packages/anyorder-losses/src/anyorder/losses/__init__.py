"""Loss heads: what is predicted from the states of a stream."""

from .cross_entropy import CrossEntropy
from .next_sentence import NextSentence

__all__ = ["CrossEntropy", "NextSentence"]
