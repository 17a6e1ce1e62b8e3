"""The random choices of XLNet's pretraining data, as a seam: recorded ones, or those of seeded generators."""

from __future__ import annotations

import random
from typing import Protocol

import numpy as np

from ..pairs import PairDraws


class SpanDraws(Protocol):
    """The random choices of the targets of a stretch of tokens, in the order in which they are asked for."""

    def gram(self, most: int) -> int:
        """A span's length, ``1`` to ``most``, with odds inverse to it."""
        ...

    def left(self, count: int) -> int:
        """How much context stands left of a span, ``0`` to ``count - 1``."""
        ...

    def fill(self, count: int) -> int:
        """A place, ``0`` to ``count - 1``."""
        ...


class RecordDraws(PairDraws, SpanDraws, Protocol):
    """All choices of a record."""


class SeededDraws:
    """The choices of the official code, number for number, given the states of its two generators.

    Args:
        pairs: seed of Python's generator, which cuts A and B. The official code leaves it unseeded.
        spans: seed of NumPy's, which chooses targets; officially ``100 * task + pass_id``.
    """

    def __init__(self, *, pairs: int, spans: int) -> None:
        self._python = random.Random(pairs)
        self._numpy = np.random.RandomState(spans)

    def negative(self) -> bool:
        return self._python.random() < 0.5

    def choice(self, count: int) -> int:
        return self._python.choice(range(count))

    def place(self, count: int) -> int:
        return self._python.randrange(count)

    def gram(self, most: int) -> int:
        odds = 1.0 / np.arange(1, most + 1)
        return int(self._numpy.choice(np.arange(1, most + 1), p=odds / odds.sum()))

    def left(self, count: int) -> int:
        return int(self._numpy.choice(count))

    def fill(self, count: int) -> int:
        return int(self._numpy.randint(count))

    def shards(self, count: int) -> list[int]:
        """The order of a task's files; drawn first."""
        return [int(number) for number in self._numpy.permutation(count)]
