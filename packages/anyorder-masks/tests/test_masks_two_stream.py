"""Two streams: worked examples, and the slow twin."""

from __future__ import annotations

from dataclasses import fields

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anyorder.core import QUERY_ID, TARGETS, Draws, Plan, Slots, Streams, TokenBatch, Visibility, Vocab
from anyorder.core.testing import ReferenceTwoStream, example_batches, example_plan
from anyorder.masks import InPlace, TwoStream

VOCAB = Vocab(size=40)


def build(builder: TwoStream | ReferenceTwoStream | InPlace, batch: TokenBatch, plan: Plan) -> Streams:
    draws = Draws(0, rows=batch.rows)
    return builder.build(batch, plan, vocab=VOCAB, num_targets=batch.length, generator=draws)


@settings(max_examples=30, deadline=None)
@given(length=st.integers(1, 20), seed=st.integers(0, 1000))
def test_equals_the_slow_twin(length: int, seed: int) -> None:
    for batch in example_batches(length, vocab=VOCAB).values():
        plan = example_plan(batch, traits=frozenset(), seed=seed).within_blocks(batch)
        ours, theirs = build(TwoStream(), batch, plan), build(ReferenceTwoStream(), batch, plan)
        assert_same_slots(ours.content, theirs.content)
        assert ours.query is not None
        assert theirs.query is not None
        filled = theirs.query.doc >= 0
        assert torch.equal(ours.query.doc, theirs.query.doc)
        for name in ("ids", "position", "birth", "time"):
            assert torch.equal(getattr(ours.query, name)[filled], getattr(theirs.query, name)[filled]), name
        for name in ("index", "labels", "weight"):
            assert torch.equal(getattr(ours.readouts[TARGETS], name), getattr(theirs.readouts[TARGETS], name)), name


def assert_same_slots(one: Slots, other: Slots) -> None:
    for field in fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b, field.name


def test_targets_keep_their_ids_in_content_and_have_none_in_queries() -> None:
    batch = TokenBatch.of(torch.tensor([[11, 12, 13, 14]]))
    streams = build(TwoStream(), batch, Plan.from_order(torch.tensor([[1, 3, 0, 2]]), given=1))
    assert streams.content.ids.tolist() == [[11, 12, 13, 14]]
    assert streams.query is not None
    assert streams.query.ids.tolist() == [[QUERY_ID] * 4]
    assert streams.query.position.tolist() == [[0, 2, 3, 0]]
    assert streams.query.doc.tolist() == [[0, 0, 0, -1]]
    assert streams.readouts[TARGETS].labels.tolist() == [[11, 13, 14, 0]]
    assert streams.readouts[TARGETS].weight.tolist() == [[1, 1, 1, 0]]


def test_nobody_sees_a_query_slot() -> None:
    batch = TokenBatch.of(torch.tensor([[11, 12, 13]]))
    query = build(TwoStream(), batch, Plan.from_order(torch.tensor([[2, 0, 1]]))).query
    assert query is not None
    late = torch.full((1, 1), 10**12)
    reader = Slots(ids=late, position=late, birth=late, time=late, doc=late * 0, low=0, high=10**13)
    assert not Visibility.of(reader, query).dense().any()


NEW, YORK = 0, 1
CITY = ("New", "York", "is", "a", "city")


def visible_words(streams: Streams, prediction: int) -> set[str]:
    """The words whose tokens a prediction may see directly."""
    readout = streams.readouts[TARGETS]
    readers = streams.query if readout.stream == "query" else streams.content
    assert readers is not None
    seen = Visibility.of(readers, streams.content).dense()[0, int(readout.index[0, prediction])]
    told = streams.content.ids[0] == torch.arange(10, 15)
    return {word for word, visible, tells in zip(CITY, seen.tolist(), told.tolist(), strict=True) if visible and tells}


def test_new_york_is_a_city() -> None:
    """XLNet, section 2.6: only the permutation LM keeps the dependency of York on New."""
    batch = TokenBatch.of(torch.arange(10, 15)[None])
    target = torch.tensor([[True, True, False, False, False]])
    dae = build(InPlace(mask=1.0, random=0.0), batch, Plan.of(target.long(), target))
    assert visible_words(dae, NEW) == visible_words(dae, YORK) == {"is", "a", "city"}
    plm = build(TwoStream(), batch, Plan.of(torch.tensor([[1, 2, 0, 0, 0]]), target))
    assert visible_words(plm, NEW) == {"is", "a", "city"}
    assert visible_words(plm, YORK) == {"New", "is", "a", "city"}


@pytest.mark.parametrize("order", [[2, 0, 1], [1, 2, 0], [0, 1, 2]])
def test_the_chain_rule_sees_each_prefix_of_the_order(order: list[int]) -> None:
    batch = TokenBatch.of(torch.tensor([[11, 12, 13]]))
    streams = build(TwoStream(), batch, Plan.from_order(torch.tensor([order])))
    assert streams.query is not None
    seen = Visibility.of(streams.query, streams.content).dense()[0]
    for rank, place in enumerate(order):
        assert sorted(order[:rank]) == seen[place].nonzero().flatten().tolist()
