"""The audit finds nothing where nothing leaks, and every planted bug."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from anyorder.core import TARGETS, Draws, Plan, Slots, Streams, TokenBatch, Visibility, Vocab
from anyorder.core.testing import (
    AuditedSegment,
    Leak,
    ReferenceMemory,
    ReferenceTwoStream,
    example_plan,
    find_leaks,
    overlapping_batches,
    perturbation_leaks,
)

VOCAB = Vocab(size=40)
LENGTH, REUSE = 12, 6


def build(batch: TokenBatch, plan: Plan) -> Streams:
    draws = Draws(0, rows=batch.rows)
    return ReferenceTwoStream().build(batch, plan, vocab=VOCAB, num_targets=batch.length, generator=draws)


def one_segment(order: list[int], *, given: int = 0) -> AuditedSegment:
    batch = TokenBatch.of(torch.arange(10, 10 + len(order))[None])
    plan = Plan.from_order(torch.tensor([order]), given=given)
    return AuditedSegment.of(batch, plan, build(batch, plan))


def several_segments(*, within_blocks: bool = True) -> list[AuditedSegment]:
    segments = []
    for number, batch in enumerate(overlapping_batches(LENGTH, reuse_len=REUSE, vocab=VOCAB)):
        plan = example_plan(batch, traits=frozenset(), seed=number)
        plan = plan.within_blocks(batch) if within_blocks else plan
        segments.append(AuditedSegment.of(batch, plan, build(batch, plan), start=number * REUSE))
    return segments


def query_of(segment: AuditedSegment) -> Slots:
    assert segment.streams.query is not None
    return segment.streams.query


def with_query(segment: AuditedSegment, **changes: Tensor) -> AuditedSegment:
    query = replace(query_of(segment), **changes)  # type: ignore[arg-type]
    return replace(segment, streams=replace(segment.streams, query=query))


def with_content(segment: AuditedSegment, **changes: Tensor) -> AuditedSegment:
    content = replace(segment.streams.content, **changes)  # type: ignore[arg-type]
    return replace(segment, streams=replace(segment.streams, content=content))


def test_nothing_leaks_from_right_streams() -> None:
    assert find_leaks([]) == []
    assert find_leaks([one_segment([1, 3, 0, 2])]) == []
    assert find_leaks([one_segment([1, 3, 0, 2], given=2)]) == []
    memory = ReferenceMemory(mem_len=3 * LENGTH, reuse_len=REUSE)
    assert find_leaks(several_segments(), memory=memory) == []


def test_an_opened_diagonal_is_caught() -> None:
    """The query reads at its token's birth instead of just before it."""
    segment = one_segment([1, 3, 0, 2])
    leaks = find_leaks([with_query(segment, time=query_of(segment).time + 1)])
    assert leaks == [
        Leak(segment=0, row=0, position=i, source=i, path=(f"content {i}", f"query {i}")) for i in range(4)
    ]
    assert str(leaks[1]) == ("segment 0, row 0: the prediction at 1 is reached by its own token: content 1 -> query 1")


def test_a_leak_through_another_token_is_caught_with_its_path() -> None:
    """Given tokens that see one target carry it to every query: two layers, no direct sight."""
    segment = one_segment([0, 1, 2, 3], given=2)
    time = segment.streams.content.time.clone()
    time[0, 0] = 2  # the given token at 0 now reads when the targets at 2 and 3 are known
    leaks = find_leaks([with_content(segment, time=time)])
    assert [(leak.position, leak.source, leak.path) for leak in leaks] == [
        (2, 2, ("content 2", "content 0", "query 0")),
        (2, 3, ("content 3", "content 0", "query 0")),
        (3, 3, ("content 3", "content 0", "query 1")),
    ]


def test_context_that_sees_functional_tokens_is_caught() -> None:
    """XLNet's SEP and CLS take ranks because they see targets; a context that sees them sees the targets too."""
    batch = TokenBatch.of(torch.tensor([[10, 11, 12, VOCAB.sep]]), fixed=torch.tensor([[False, False, False, True]]))
    target = torch.tensor([[False, True, True, False]])
    right = Plan.of(torch.tensor([[0, 1, 2, 3]]), target)
    assert not find_leaks([AuditedSegment.of(batch, right, build(batch, right))])
    wrong = with_content(AuditedSegment.of(batch, right, build(batch, right)), birth=torch.tensor([[0, 1, 2, 0]]))
    leaks = find_leaks([wrong])
    assert {(leak.position, leak.source) for leak in leaks} >= {(1, 1), (2, 2)}
    assert ("content 1", "content 3", "query 0") in [leak.path for leak in leaks]


def test_a_token_that_is_born_too_early_is_caught() -> None:
    segment = one_segment([1, 3, 0, 2])
    birth = segment.streams.content.birth.clone()
    birth[0, 2] = 0  # the last of the order
    early = with_content(segment, birth=birth, time=birth)
    assert {leak.source for leak in find_leaks([early])} == {2}
    # Reading at its own time it knows every token, and tells them all to whoever sees it.
    assert {leak.source for leak in find_leaks([with_content(segment, birth=birth)])} == {0, 1, 2, 3}


def test_a_query_that_carries_its_token_is_caught() -> None:
    segment = one_segment([1, 0])
    leaks = find_leaks([with_query(segment, ids=segment.batch.ids)])
    assert [(leak.position, leak.source, leak.path) for leak in leaks] == [
        (0, 0, ("query 0",)),
        (1, 1, ("query 1",)),
    ]


def test_one_block_that_sees_the_next_is_caught_in_the_next_segment() -> None:
    """Within one segment it is harmless; memory then knows targets of the part that is read again."""
    segments = several_segments(within_blocks=False)
    assert find_leaks(segments[:1]) == []
    leaks = find_leaks(segments, memory=ReferenceMemory(mem_len=LENGTH, reuse_len=REUSE))
    assert leaks
    assert all(leak.segment > 0 and leak.path[0].startswith("memory -") for leak in leaks)
    assert any(leak.position == leak.source for leak in leaks)


def test_memory_kept_beyond_the_block_is_caught() -> None:
    leaks = find_leaks(several_segments(), memory=ReferenceMemory(mem_len=3 * LENGTH, reuse_len=REUSE + 1))
    assert leaks
    assert all(leak.segment > 0 and leak.path[0].startswith("memory -") for leak in leaks)
    # Memory kept the token that the next segment begins with, and what that token had seen of its block.
    assert 0 in {leak.source for leak in leaks}


def test_a_fresh_row_forgets_what_would_leak() -> None:
    segments = several_segments()[:2]
    memory = ReferenceMemory(mem_len=LENGTH, reuse_len=LENGTH)
    rows = {leak.row for leak in find_leaks(segments, memory=memory)}
    assert rows == {0, 1}  # the last row starts anew
    stale = [replace(s, batch=replace(s.batch, fresh=torch.zeros(3, dtype=torch.bool))) for s in segments]
    assert {leak.row for leak in find_leaks(stale, memory=memory)} == {0, 1, 2}


def test_the_same_token_is_known_by_its_number_and_not_by_its_id() -> None:
    batch = TokenBatch.of(torch.full((1, 3), 10))
    plan = Plan.from_order(torch.tensor([[0, 1, 2]]))
    segment = AuditedSegment.of(batch, plan, build(batch, plan))
    memory = ReferenceMemory(mem_len=3)
    again = [segment, replace(segment, tokens=segment.tokens)]
    other = [segment, replace(segment, tokens=segment.tokens + 3)]
    assert find_leaks(other, memory=memory) == []
    assert {leak.position for leak in find_leaks(again, memory=memory)} == {0, 1, 2}


def test_documents_and_weights_are_minded() -> None:
    segment = one_segment([1, 0])
    opened = with_query(segment, time=query_of(segment).time + 1)
    apart = with_content(opened, doc=torch.tensor([[5, 6]]))
    assert find_leaks([apart]) == []
    readout = opened.streams.readouts[TARGETS]
    silent = replace(readout, weight=torch.tensor([[0.0, 1.0]]))
    assert [
        leak.position
        for leak in find_leaks([replace(opened, streams=replace(opened.streams, readouts={TARGETS: silent}))])
    ] == [1]


def test_revealed_predictions_are_passed_over() -> None:
    segment = one_segment([1, 0])
    opened = with_query(segment, time=query_of(segment).time + 1)
    readout = replace(opened.streams.readouts[TARGETS], revealed=torch.tensor([[False, True]]))
    opened = replace(opened, streams=replace(opened.streams, readouts={TARGETS: readout}))
    assert [leak.position for leak in find_leaks([opened])] == [0]


def test_a_readout_in_another_order_is_refused() -> None:
    segment = one_segment([1, 0])
    readout = segment.streams.readouts[TARGETS]
    turned = replace(readout, labels=readout.labels.flip(1))
    with pytest.raises(ValueError, match="natural order"):
        find_leaks([replace(segment, streams=replace(segment.streams, readouts={TARGETS: turned}))])


def model(*, opened: bool) -> Callable[[TokenBatch, Plan], Tensor]:
    """Two layers of uniform attention and a read-out: the least that mixes what it sees."""
    draw = torch.Generator().manual_seed(0)
    embedding = torch.randn(VOCAB.size, 8, generator=draw, dtype=torch.float64)

    def predict(batch: TokenBatch, plan: Plan) -> Tensor:
        streams = build(batch, plan)
        content, query = streams.content, streams.query
        assert query is not None
        seen = Visibility.of(content, content).dense().double()
        asked = Visibility.of(replace(query, time=query.time + int(opened)), content).dense().double()
        state = embedding[content.ids]
        layers = [state, torch.tanh(seen @ state)]
        hidden = sum((torch.tanh(asked @ layer) for layer in layers), torch.zeros((), dtype=torch.float64))
        return (hidden @ embedding.T).log_softmax(dim=-1)

    return predict


def test_perturbation_agrees_with_the_audit() -> None:
    batch = overlapping_batches(LENGTH, reuse_len=REUSE, vocab=VOCAB)[0]
    plan = example_plan(batch, traits=frozenset()).within_blocks(batch)
    assert perturbation_leaks(model(opened=False), batch, plan, vocab=VOCAB) == []
    moved = perturbation_leaks(model(opened=True), batch, plan, vocab=VOCAB)
    targets = {(row, place) for row, place in plan.target.nonzero().tolist()}
    assert {(m.row, m.position) for m in moved} == targets
    assert all(m.position == m.source and m.change > 0 for m in moved)
    assert perturbation_leaks(model(opened=True), batch, plan, vocab=VOCAB, tolerance=1e9) == []


def test_perturbation_counts_nan_as_moved() -> None:
    batch = TokenBatch.of(torch.tensor([[10, 11]]))
    plan = Plan.from_order(torch.tensor([[0, 1]]))
    moved = perturbation_leaks(lambda b, p: torch.full((1, 2, 3), torch.nan), batch, plan, vocab=VOCAB)
    assert len(moved) == 3
