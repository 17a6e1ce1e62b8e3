"""Corrupting targets in place: the parts, the ids drawn, what is revealed, and planted bugs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from anyorder.core import TARGETS, DataError, Draws, Plan, RecipeError, Streams, TokenBatch, Visibility, Vocab
from anyorder.core.testing import AuditedSegment, find_leaks
from anyorder.masks import InPlace

VOCAB = Vocab(size=50)
LENGTH = 400


def example(rows: int = 50) -> tuple[TokenBatch, Plan]:
    ids = 9 + Draws(1, rows=rows).randint(VOCAB.size - 9, LENGTH)
    batch = TokenBatch.of(ids)
    target = Draws(2, rows=rows).bernoulli(0.5, LENGTH)
    return batch, Plan.of(target.long(), target)


def build(builder: InPlace, batch: TokenBatch, plan: Plan, *, seed: int = 0) -> Streams:
    draws = Draws(seed, rows=batch.rows)
    return builder.build(batch, plan, vocab=VOCAB, num_targets=batch.length, generator=draws)


@pytest.mark.parametrize(("mask", "random"), [(0.8, 0.1), (1.0, 0.0), (0.0, 0.0), (0.5, 0.5), (0.0, 1.0)])
def test_parts_of_the_targets(mask: float, random: float) -> None:
    batch, plan = example()
    ids = build(InPlace(mask=mask, random=random), batch, plan).content.ids
    assert torch.equal(ids[~plan.target], batch.ids[~plan.target])
    count = int(plan.target.sum())
    masked = float((ids == VOCAB.mask)[plan.target].sum()) / count
    kept = float((ids == batch.ids)[plan.target].sum()) / count
    by_chance = random / (VOCAB.size - len(VOCAB.control))  # a drawn id that is the token's own
    deviation = 4 * 0.5 / count**0.5
    assert abs(masked - mask) <= (deviation if 0 < mask < 1 else 0)
    assert abs(kept - (1 - mask - random) - by_chance) <= (deviation if mask < 1 and mask + random > 0 else 0)


def test_random_ids_are_uniform_over_what_is_no_control_id() -> None:
    batch, plan = example()
    ids = build(InPlace(mask=0.0, random=1.0), batch, plan).content.ids[plan.target]
    counts = torch.bincount(ids, minlength=VOCAB.size)
    assert not counts[list(VOCAB.control)].any()
    free = torch.tensor([id_ for id_ in range(VOCAB.size) if id_ not in VOCAB.control])
    expected = len(ids) / len(free)
    chi_square = float(((counts[free] - expected) ** 2 / expected).sum())
    assert chi_square < 82  # 42 degrees of freedom: 0.02 percent lie above
    assert len(counts) == VOCAB.size


def test_control_ids_anywhere_are_stepped_over() -> None:
    vocab = Vocab(size=12, unk=11, bos=0, eos=3, cls=4, sep=4, pad=9, mask=10)
    batch, plan = example(4)
    streams = InPlace(mask=0.0, random=1.0).build(
        batch, plan, vocab=vocab, num_targets=LENGTH, generator=Draws(0, rows=4)
    )
    assert set(streams.content.ids[plan.target].tolist()) == {1, 2, 5, 6, 7, 8}


def test_a_vocabulary_of_control_ids_has_nothing_to_draw() -> None:
    batch, plan = example(1)
    with pytest.raises(DataError, match="none to draw"):
        InPlace().build(batch, plan, vocab=Vocab(size=7), num_targets=LENGTH, generator=Draws(0, rows=1))


def test_revealed_marks_exactly_what_the_input_tells() -> None:
    batch, plan = example(4)
    streams = build(InPlace(), batch, plan)
    readout = streams.readouts[TARGETS]
    assert readout.revealed is not None
    for row in range(batch.rows):
        places = plan.target[row].nonzero().flatten()
        told = streams.content.ids[row, places] == batch.ids[row, places]
        assert torch.equal(readout.revealed[row, : len(places)], told)
        assert not readout.revealed[row, len(places) :].any()


def test_scoring_is_mask_only() -> None:
    batch, plan = example(4)
    streams = build(InPlace().scoring(), batch, plan)
    assert bool((streams.content.ids[plan.target] == VOCAB.mask).all())
    assert streams.readouts[TARGETS].revealed is None


def test_every_token_of_a_block_sees_its_block_and_those_before() -> None:
    ids = torch.arange(10, 16)[None]
    whole = TokenBatch.of(ids)
    halves = replace(whole, block=torch.tensor([[0, 0, 0, 0, 1, 1]]))
    target = torch.tensor([[False, True, False, True, True, False]])
    plan = Plan.of(target.long(), target)
    for batch in (whole, halves):
        streams = build(InPlace(), batch, plan.within_blocks(batch))
        seen = Visibility.of(streams.content, streams.content).dense()[0]
        expected = torch.ones(6, 6, dtype=torch.bool)
        if batch.block is not None:
            expected[:4, 4:] = False
        assert torch.equal(seen, expected)


@pytest.mark.parametrize(
    ("mask", "random", "match"),
    [
        (1.2, 0.0, r"^mask: mask is 1\.2; it must be from 0 to 1"),
        (0.8, -0.1, r"^random: random is -0\.1; it must be from 0 to 1"),
        (0.8, 0.3, r"together 1\.1, but at most 1"),
    ],
)
def test_impossible_parts_are_refused(mask: float, random: float, match: str) -> None:
    with pytest.raises(RecipeError, match=match):
        InPlace(mask=mask, random=random)


def test_a_builder_that_does_not_hide_is_caught() -> None:
    batch, plan = example(1)
    streams = build(InPlace(mask=1.0, random=0.0), batch, plan)
    assert not find_leaks([AuditedSegment.of(batch, plan, streams)])
    place = int(plan.target[0].nonzero()[3])
    ids = streams.content.ids.clone()
    ids[0, place] = batch.ids[0, place]
    leaks = find_leaks([AuditedSegment.of(batch, plan, replace(streams, content=replace(streams.content, ids=ids)))])
    assert {leak.source for leak in leaks} == {place}
    assert place in {leak.position for leak in leaks}
