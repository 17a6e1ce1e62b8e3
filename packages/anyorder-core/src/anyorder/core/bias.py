"""Score terms that depend on the query and on where, or in which segment, a key lies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from .struct import TensorStruct

ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""``(b, h, q, k) -> term``: one entry of a term, unscaled."""


class ScoreTerm(Protocol):
    """One summand of the attention score, before the scale."""

    def dense(self) -> Float[Tensor, "B H Q K"]: ...

    def block(self, readers: slice, keys: slice) -> ScoreTerm:
        """The same term for some neighbouring readers and keys; both slices have a start and a stop, and no step."""
        ...

    def score_mod(self) -> ScoreMod: ...


@dataclass(frozen=True, kw_only=True)
class DistanceTerm(TensorStruct):
    """A term looked up by the distance ``reader - key`` in reading order.

    Kept as two factors, so that a backend that works in blocks need never hold the score of every pair.

    Attributes:
        query: queries, bias vector included; None where a score depends on the distance alone.
        codes: one column a distance, from the greatest down: column ``c`` is distance ``high - c``. Without a query
            the codes are the scores, ``d`` being 1. Sizes 1 in B or H broadcast.
        reader, key: positions.
        high: the distance of column 0.
        contiguous: readers and keys are runs of neighbouring positions and ``N == Q + K``, ``high`` being one more
            than the greatest distance; ``dense`` is then a view of the scores (Transformer-XL's relative shift).
    """

    query: Float[Tensor, "B H Q d"] | None
    codes: Float[Tensor, "B H d N"]
    reader: Int[Tensor, "B Q"]
    key: Int[Tensor, "B K"]
    high: int
    contiguous: bool = False

    @property
    def scores(self) -> Float[Tensor, "B H Q N"]:
        """The score of each reader at every distance."""
        return self.codes if self.query is None else self.query @ self.codes

    def dense(self) -> Float[Tensor, "B H Q K"]:
        readers, keys = self.reader.shape[1], self.key.shape[1]
        scores = self.scores.expand(-1, -1, readers, -1)
        if self.contiguous:
            return relative_shift(scores, keys=keys)
        column = self.high - self.reader[:, :, None] + self.key[:, None, :]  # [B, Q, K]
        batch = max(scores.shape[0], column.shape[0])
        scores = scores.expand(batch, -1, -1, -1)
        return scores.gather(3, column[:, None].expand(batch, scores.shape[1], -1, -1))

    def block(self, readers: slice, keys: slice) -> DistanceTerm:
        """A contiguous block needs no more than its own run of distances: the other columns are cut."""
        query = None if self.query is None else self.query[:, :, readers]
        part = replace(self, query=query, reader=self.reader[:, readers], key=self.key[:, keys])
        if not self.contiguous:
            return part
        cut, columns = contiguous_columns(readers, keys, count=self.reader.shape[1])
        return replace(part, codes=self.codes[..., cut : cut + columns], high=self.high - cut)

    def score_mod(self) -> ScoreMod:
        scores, reader, key, high = self.scores, self.reader, self.key, self.high
        one_b, one_h, one_q = (size == 1 for size in scores.shape[:3])

        def term(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
            column = high - reader[b, q] + key[b, k]
            zero = torch.zeros_like(b)
            return scores[zero if one_b else b, zero if one_h else h, zero if one_q else q, column]

        return term


def relative_shift(scores: Float[Tensor, "B H Q N"], *, keys: int) -> Float[Tensor, "B H Q K"]:
    """Turn scores by distance, greatest first, into scores by key, where readers and keys are contiguous runs.

    Column ``c`` of ``scores`` is distance ``high - c``, and reader ``i`` lies ``high - Q + i - j`` past key ``j``, so
    ``out[i, j] = scores[i, Q - i + j]``: entry ``Q + i * (N - 1) + j`` of the flattened rows, hence a view. Column 0 is
    never read; it makes ``N - 1 >= K`` hold for every ``Q`` (``modeling.py`` ``rel_shift``). The gather in
    ``DistanceTerm.dense`` is the readable twin.
    """
    readers, distances = scores.shape[-2:]
    assert distances == readers + keys, (distances, readers, keys)
    flat = scores.flatten(-2)[..., readers:]
    shifted: Tensor = flat.reshape(*scores.shape[:-1], distances - 1)[..., :keys]
    return shifted


def contiguous_columns(readers: slice, keys: slice, *, count: int) -> tuple[int, int]:
    """First column and number of columns that a block of a contiguous term uses, ``count`` readers in all."""
    cut = (count - readers.stop) + keys.start
    return cut, (readers.stop - readers.start) + (keys.stop - keys.start)


@dataclass(frozen=True, kw_only=True)
class MatchTerm(TensorStruct):
    """A term with one value where reader and key share a segment and another where they do not.

    Attributes:
        scores: ``[..., 0]`` for the same segment, ``[..., 1]`` for another (XLNet ``modeling.py`` ``rel_attn_core``).
        reader, key: segment ids, of which only equality matters.
    """

    scores: Float[Tensor, "B H Q 2"]
    reader: Int[Tensor, "B Q"]
    key: Int[Tensor, "B K"]

    @property
    def other(self) -> Bool[Tensor, "B Q K"]:
        return self.reader[:, :, None] != self.key[:, None, :]

    def dense(self) -> Float[Tensor, "B H Q K"]:
        same, other = self.scores.split(1, dim=-1)  # [B, H, Q, 1] each
        return torch.where(self.other[:, None], other, same)

    def block(self, readers: slice, keys: slice) -> MatchTerm:
        return replace(self, scores=self.scores[:, :, readers], reader=self.reader[:, readers], key=self.key[:, keys])

    def score_mod(self) -> ScoreMod:
        scores, reader, key = self.scores, self.reader, self.key

        def term(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
            return scores[b, h, q, (reader[b, q] != key[b, k]).long()]

        return term


@dataclass(frozen=True)
class ScoreBias:
    """A sum of terms, added to ``query . key`` inside the scale. Never empty: no bias is None."""

    terms: tuple[ScoreTerm, ...]

    @classmethod
    def join(cls, *biases: ScoreBias | None) -> ScoreBias | None:
        terms = tuple(term for bias in biases if bias is not None for term in bias.terms)
        return cls(terms) if terms else None

    def dense(self) -> Float[Tensor, "B H Q K"]:
        total = self.terms[0].dense()
        for term in self.terms[1:]:
            total = total + term.dense()
        return total

    def block(self, readers: slice, keys: slice) -> ScoreBias:
        return ScoreBias(tuple(term.block(readers, keys) for term in self.terms))

    def score_mod(self) -> ScoreMod:
        mods = [term.score_mod() for term in self.terms]

        def bias(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
            total = mods[0](b, h, q, k)
            for mod in mods[1:]:
                total = total + mod(b, h, q, k)
            return total

        return bias
