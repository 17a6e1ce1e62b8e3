"""Batches, plans and slots to hold a part to: small, varied, and the same every time."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

from ..batch import TokenBatch
from ..draws import Draws
from ..plan import CONSECUTIVE, ONE_SHOT, Plan
from ..struct import TensorStruct
from ..vocab import Vocab

Struct = TypeVar("Struct", bound=TensorStruct)


def text_ids(rows: int, length: int, *, vocab: Vocab, seed: int = 0) -> Int[Tensor, "B L"]:
    """Ids that stand for text, none of them a control id."""
    plain = torch.tensor([id_ for id_ in range(vocab.size) if id_ not in vocab.control])
    return plain[Draws(seed, rows=rows, purpose="ids").randint(len(plain), length)]


def example_batches(length: int, *, vocab: Vocab, rows: int = 4) -> dict[str, TokenBatch]:
    """Batches of one length by what is special about them; every one says which tokens make a word."""
    ids = text_ids(rows, length, vocab=vocab)
    draws = Draws(1, rows=rows, purpose="examples")
    place = torch.arange(length).expand(rows, -1)
    word = draws.bernoulli(0.6, length).long().cumsum(dim=1)
    plain = TokenBatch.of(ids, word=word)
    padding = draws.randint(length, 1)  # [B, 1]
    segment = (place >= length // 2).long()
    ending = torch.zeros(rows, length, dtype=torch.bool)
    ending[:, -1:] = True
    separated = ending | (place == length // 2)
    special = torch.where(separated, torch.where(ending, vocab.cls, vocab.sep), ids)
    direction = 1 - 2 * (torch.arange(rows) % 2)
    return {
        "plain": plain,
        "padded on the left": _padded(plain, place < padding, vocab=vocab),
        "padded on the right": _padded(plain, place >= length - padding, vocab=vocab),
        "several documents": replace(plain, doc=draws.bernoulli(0.2, length).long().cumsum(dim=1)),
        "with special tokens": TokenBatch.of(special, word=word, fixed=separated, segment=segment),
        "in both directions": replace(plain, direction=direction),
        "in two blocks": replace(plain, block=segment),
        "nothing to predict": TokenBatch.of(ids, word=word, fixed=torch.ones_like(ending)),
    }


def _padded(batch: TokenBatch, padding: Tensor, *, vocab: Vocab) -> TokenBatch:
    return replace(
        batch,
        ids=batch.ids.masked_fill(padding, vocab.pad),
        doc=batch.doc.masked_fill(padding, -1),
        fixed=padding,
    )


def take_rows(struct: Struct, rows: list[int]) -> Struct:
    """The given rows of everything in a batch, plan or readout."""
    return struct.map(lambda tensor: tensor[rows])


def overlapping_batches(
    length: int, *, reuse_len: int, vocab: Vocab, rows: int = 3, segments: int = 3
) -> list[TokenBatch]:
    """Neighbouring segments of one text, each beginning ``reuse_len`` tokens after the last one.

    What the next segment reads again is block 1, as ``TokenBatch.block`` asks. The last row starts anew at segment 1.
    """
    span = length + reuse_len * (segments - 1)
    text = text_ids(rows, span, vocab=vocab)
    word = Draws(2, rows=rows, purpose="words").bernoulli(0.6, span).long().cumsum(dim=1)
    block = (torch.arange(length) >= reuse_len).long().expand(rows, -1)
    last = torch.arange(rows) == rows - 1
    return [
        TokenBatch.of(
            text[:, start : start + length],
            word=word[:, start : start + length],
            block=block,
            fresh=last if number == 1 else None,
        )
        for number, start in enumerate(range(0, reuse_len * segments, reuse_len))
    ]


def example_plan(batch: TokenBatch, *, traits: frozenset[str], seed: int = 0) -> Plan:
    """A plan with at least the given traits: left to right, one shot, or else a random order with some context."""
    draws = Draws(seed, rows=batch.rows, purpose="plan")
    free = ~batch.fixed
    place = torch.arange(batch.length).expand(batch.rows, -1)
    if CONSECUTIVE in traits:
        return Plan.of(place, free)
    target = free & draws.bernoulli(0.4, batch.length)
    if ONE_SHOT in traits:
        return Plan.of(target.long(), target)
    rank = draws.permutation(batch.length) + 1
    return Plan.of(torch.where(target, rank, 0), target, draws.rand(batch.length) + 0.5)
