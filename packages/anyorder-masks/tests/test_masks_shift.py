"""The left-to-right masks, and what happens when they are wrong."""

from __future__ import annotations

from dataclasses import replace

import torch

from anyorder.core import TARGETS, Draws, Plan, Streams, TokenBatch, Visibility, Vocab
from anyorder.core.testing import AuditedSegment, find_leaks
from anyorder.masks import Shift

VOCAB = Vocab(size=40)


def build(batch: TokenBatch, plan: Plan) -> Streams:
    draws = Draws(0, rows=batch.rows)
    return Shift().build(batch, plan, vocab=VOCAB, num_targets=batch.length, generator=draws)


def left_to_right(batch: TokenBatch) -> Plan:
    place = torch.arange(batch.length).expand(batch.rows, -1)
    return Plan.of(place, ~batch.fixed)


def test_each_target_is_read_one_token_earlier() -> None:
    batch = TokenBatch.of(torch.tensor([[11, 12, 13, 14]]))
    readout = build(batch, left_to_right(batch)).readouts[TARGETS]
    assert readout.stream == "content"
    assert readout.index.tolist() == [[0, 0, 1, 2]]
    assert readout.labels.tolist() == [[11, 12, 13, 14]]
    assert readout.weight.tolist() == [[0, 1, 1, 1]]


def test_the_first_token_of_a_document_is_not_predicted() -> None:
    batch = TokenBatch.of(torch.tensor([[11, 12, 13, 14, 15]]), doc=torch.tensor([[-1, 0, 0, 1, 1]]))
    readout = build(batch, left_to_right(batch)).readouts[TARGETS]
    assert readout.labels.tolist() == [[12, 13, 14, 15, 0]]
    assert readout.weight.tolist() == [[0, 1, 0, 1, 0]]


def test_a_prefix_is_seen_whole_from_its_last_token() -> None:
    batch = TokenBatch.of(torch.tensor([[11, 12, 13, 14, 15]]))
    plan = Plan.from_order(torch.arange(5)[None], given=3)
    streams = build(batch, plan)
    seen = Visibility.of(streams.content, streams.content).dense()[0]
    readout = streams.readouts[TARGETS]
    assert readout.labels[0, :2].tolist() == [14, 15]
    assert seen[readout.index[0, 0]].tolist() == [True, True, True, False, False]
    assert seen[readout.index[0, 1]].tolist() == [True, True, True, True, False]


def test_a_readout_off_by_one_is_caught() -> None:
    batch = TokenBatch.of(torch.tensor([[11, 12, 13, 14]]))
    plan = left_to_right(batch)
    streams = build(batch, plan)
    assert not find_leaks([AuditedSegment.of(batch, plan, streams)])
    readout = streams.readouts[TARGETS]
    wrong = replace(streams, readouts={TARGETS: replace(readout, index=torch.arange(4)[None])})
    leaks = find_leaks([AuditedSegment.of(batch, plan, wrong)])
    assert [(leak.position, leak.source) for leak in leaks] == [(1, 1), (2, 2), (3, 3)]
    assert leaks[0].path == ("content 1",)


def test_an_order_that_is_not_consecutive_is_caught() -> None:
    batch = TokenBatch.of(torch.tensor([[11, 12, 13, 14]]))
    plan = Plan.from_order(torch.tensor([[0, 2, 1, 3]]))
    leaks = find_leaks([AuditedSegment.of(batch, plan, build(batch, plan))])
    assert (2, 2) in [(leak.position, leak.source) for leak in leaks]
