"""The one rule: worked examples, and both forms of the mask."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from anyorder.core import Draws, MemoryState, Plan, Slots, Streams, TokenBatch, Visibility, Vocab
from anyorder.core.testing import ReferenceTwoStream

VOCAB = Vocab(size=40)


def two_stream(order: list[int], *, given_tokens: int = 0) -> Streams:
    """Streams of one row; ``order`` counts places from 1, as papers do."""
    batch = TokenBatch.of(torch.arange(10, 10 + len(order))[None])
    plan = Plan.from_order(torch.tensor([order]) - 1, given=given_tokens)
    draws = Draws(0, rows=1)
    return ReferenceTwoStream().build(batch, plan, vocab=VOCAB, num_targets=len(order), generator=draws)


def seen_by(readers: Slots | None, keys: Slots) -> list[set[int]]:
    """Places, counted from 1, that each reader of a row sees."""
    assert readers is not None
    dense = Visibility.of(readers, keys).dense()[0]
    return [{place + 1 for place in row.nonzero().flatten().tolist()} for row in dense]


def test_order_2_4_1_3() -> None:
    streams = two_stream([2, 4, 1, 3])
    content = seen_by(streams.content, streams.content)
    query = seen_by(streams.query, streams.content)
    assert content == [{1, 2, 4}, {2}, {1, 2, 3, 4}, {2, 4}]
    assert query == [{2, 4}, set(), {1, 2, 4}, {2}]
    assert [len(content[place - 1]) for place in (2, 4, 1, 3)] == [1, 2, 3, 4]
    assert [len(query[place - 1]) for place in (2, 4, 1, 3)] == [0, 1, 2, 3]
    assert sum(map(len, content)) == 10
    assert sum(map(len, query)) == 6


def test_order_3_1_2() -> None:
    """The query of place 1 sees place 3 alone."""
    streams = two_stream([3, 1, 2])
    assert seen_by(streams.query, streams.content)[0] == {3}


def test_order_3_2_4_1_of_the_papers_figure() -> None:
    """XLNet, figure 1 and appendix A.7: under 3, 2, 4, 1 the factors are x3, x2 | x3, x4 | x3 x2, x1 | all."""
    streams = two_stream([3, 2, 4, 1])
    assert seen_by(streams.query, streams.content) == [{2, 3, 4}, {3}, set(), {2, 3}]


def test_memory_is_seen_by_all_of_its_document() -> None:
    streams = two_stream([2, 1])
    state = MemoryState(layers=(), position=torch.tensor([[-3, -2, -1]]), doc=torch.tensor([[-1, 0, 1]]))
    keys = state.before(streams.content)
    assert streams.query is not None
    dense = Visibility.of(streams.query, keys).dense()[0].int().tolist()
    assert dense == [[0, 1, 0, 0, 1], [0, 1, 0, 0, 0]]
    assert (keys.low, keys.high) == (-3, 2)


def test_random_orders_average_to_both_sided_context() -> None:
    """Every pair of places is visible in half of the orders."""
    rows, length = 20_000, 8
    order = Draws(0, rows=rows, purpose="order").permutation(length)
    batch = TokenBatch.of(torch.zeros_like(order))
    plan = Plan.from_order(order)
    query = Slots.of_tokens(batch, plan.time, time=plan.time - 1)
    content = Slots.of_tokens(batch, plan.time)
    share = Visibility.of(query, content).dense().float().mean(dim=0)
    apart = ~torch.eye(length, dtype=torch.bool)
    assert float((share[apart] - 0.5).abs().max()) < 5 * 0.5 / rows**0.5
    assert not share[~apart].any()


def by_entry(visibility: Visibility) -> Tensor:
    rows, readers = visibility.time.shape
    shape = (rows, 1, readers, visibility.birth.shape[1])
    places = torch.meshgrid(*(torch.arange(size) for size in shape), indexing="ij")
    return visibility.mask_mod()(*places)[:, 0]


def times(low: int, high: int, count: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(low, high), min_size=count, max_size=count)


@st.composite
def visibilities(draw: st.DrawFn, *, least: int = 0) -> tuple[Visibility, Slots, Slots]:
    def slots(count: int, *, low: int = 0, expires: bool = False) -> Slots:
        def values(low: int, high: int) -> Tensor:
            return torch.tensor([draw(times(low, high, count)) for _ in range(2)], dtype=torch.long).view(2, count)

        birth = values(-1, 4)
        return Slots(
            ids=birth * 0,
            position=torch.arange(low, low + count).expand(2, -1),
            birth=birth,
            time=values(-1, 4),
            doc=values(-1, 2),
            death=values(-1, 6) if expires else None,
            back=draw(st.none() | st.integers(0, 5)),
            ahead=draw(st.none() | st.integers(0, 5)),
            low=low,
            high=low + max(count, 1),
        )

    readers = slots(draw(st.integers(least, 6)))
    keys = slots(draw(st.integers(least, 6)), low=-draw(st.integers(0, 3)), expires=draw(st.booleans()))
    return Visibility.of(readers, keys), readers, keys


@settings(max_examples=60, deadline=None)
@given(visibilities())
def test_both_forms_are_the_rule(case: tuple[Visibility, Slots, Slots]) -> None:
    visibility, readers, keys = case
    dense = visibility.dense()
    assert torch.equal(dense, by_entry(visibility))
    for b in range(2):
        for q in range(readers.count):
            for k in range(keys.count):
                time = int(readers.time[b, q])
                rule = int(keys.birth[b, k]) <= time
                if keys.death is not None:
                    rule = rule and time <= int(keys.death[b, k])
                rule = rule and int(keys.doc[b, k]) == int(readers.doc[b, q]) >= 0
                distance = int(readers.position[b, q]) - int(keys.position[b, k])
                if readers.back is not None:
                    rule = rule and distance <= readers.back
                if readers.ahead is not None:
                    rule = rule and distance >= -readers.ahead
                assert bool(dense[b, q, k]) == rule


@settings(max_examples=30, deadline=None)
@given(visibilities(least=1), st.data())
def test_blocks_are_those_of_the_whole(case: tuple[Visibility, Slots, Slots], data: st.DataObject) -> None:
    visibility, readers, keys = case
    some, others = (
        slice(start := data.draw(st.integers(0, count - 1)), data.draw(st.integers(start + 1, count)))
        for count in (readers.count, keys.count)
    )
    dense = visibility.dense()
    assert torch.equal(visibility.block(some, others).dense(), dense[:, some, others])
    used = visibility.key_range(some)
    assert 0 <= used.start < used.stop <= keys.count
    outside = dense[:, some].clone()
    outside[:, :, used] = False
    assert not outside.any()


def test_the_key_range_of_a_causal_block_ends_with_it() -> None:
    place = torch.arange(10)[None]
    slots = Slots(ids=place, position=place, birth=place, time=place, doc=place * 0, low=0, high=10)
    assert Visibility.of(slots, slots).key_range(slice(2, 5)) == slice(0, 5)
