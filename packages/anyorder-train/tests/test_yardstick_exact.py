"""Yardsticks against slow computations by hand, on a small model in float64."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from scored_by_hand import VOCAB, clm, log_probabilities, mlm, plm, text
from torch import Tensor

from anyorder.core import TokenBatch
from anyorder.train.objective import Objective
from anyorder.train.yardsticks import (
    YARDSTICKS,
    Cloze,
    SpanRecovery,
    SpanRecoveryStepwise,
    evaluating,
    measure_all,
    sample_spans,
)
from anyorder.train.yardsticks import LeftToRight as LeftToRightYardstick
from anyorder.train.yardsticks.cloze import LEFT_CONTEXT
from anyorder.train.yardsticks.span_recovery import CHAIN, PRODUCT
from anyorder.train.yardsticks.way import choose_way

BYTES = torch.arange(VOCAB.size) % 5 + 1
Build = Callable[[], Objective]


@pytest.fixture
def windows() -> TokenBatch:
    return TokenBatch.of(text(3, 16))


def by_hand(objective: Objective, kind: str, ids: Tensor, span: list[int]) -> float:
    """Nats of the tokens of a span, one conditional at a time."""
    length, total = len(ids), 0.0
    for turn, place in enumerate(span):
        rest = span[turn:]
        if kind == "left":
            time, also, unseen = list(range(length)), [], list(range(place, length))
        elif kind == "chain":
            time, also, unseen = [span.index(i) + 1 if i in span else 0 for i in range(length)], [], rest
        elif kind == "product":
            time, also, unseen = [int(i in span) for i in range(length)], [i for i in span if i != place], span
        else:
            assert kind == "stepwise"
            time, also, unseen = [int(i in rest) for i in range(length)], rest[1:], rest
        scored = log_probabilities(objective, ids, place, time=time, targets=[place, *also], unseen=unseen)
        total -= float(scored[ids[place]])
    return total


@pytest.mark.parametrize(("build", "kind"), [(plm, "chain"), (mlm, "product"), (clm, "left")])
def test_cloze_is_the_conditional_of_each_token(windows: TokenBatch, build: Build, kind: str) -> None:
    objective = build()
    score = Cloze(targets=3).measure(objective, windows, piece_bytes=BYTES, seed=5).headline
    hidden = sample_spans(windows, length=1, count=3, seed=5, purpose="cloze")
    assert hidden.sum() == 9
    for row in range(3):
        places = hidden[row].nonzero()[:, 1].tolist()
        assert len(set(places)) == 3
        assert all(4 <= place < 12 for place in places)
        expected = sum(by_hand(objective, kind, windows.ids[row], [place]) for place in places)
        assert score.nats[row] == pytest.approx(expected, abs=1e-10)
        assert score.bytes[row] == sum(int(BYTES[windows.ids[row, place]]) for place in places)
    assert score.bits_per_token == pytest.approx(sum(score.nats) / 9 / math.log(2))
    assert score.bits_per_byte == pytest.approx(sum(score.nats) / sum(score.bytes) / math.log(2))


@pytest.mark.parametrize(("build", "kind"), [(plm, "chain"), (mlm, "product"), (clm, "left")])
def test_spans_are_scored_jointly(windows: TokenBatch, build: Build, kind: str) -> None:
    objective = build()
    found = SpanRecovery(longest=4).measure(objective, windows, piece_bytes=BYTES)
    whole = sample_spans(windows, length=4, count=1, seed=0, purpose="spans")
    for row in range(3):
        span = whole[row, 0].nonzero()[:, 0].tolist()
        assert span == list(range(span[0], span[0] + 4))
        for length in range(1, 5):
            expected = by_hand(objective, kind, windows.ids[row], span[:length])
            assert found.scores[str(length)].nats[row] == pytest.approx(expected, abs=1e-10)
    assert found.headline.tokens == (10, 10, 10)
    assert sum(found.headline.nats) == pytest.approx(sum(sum(found.scores[str(n)].nats) for n in range(1, 5)))


@pytest.mark.parametrize(("build", "kind"), [(plm, "chain"), (mlm, "stepwise"), (clm, "left")])
def test_stepwise_spans_use_the_chain_rule_of_every_model(windows: TokenBatch, build: Build, kind: str) -> None:
    objective = build()
    found = SpanRecoveryStepwise(length=3).measure(objective, windows, piece_bytes=BYTES)
    whole = sample_spans(windows, length=3, count=1, seed=0, purpose="spans")
    for row in range(3):
        span = whole[row, 0].nonzero()[:, 0].tolist()
        assert found.headline.nats[row] == pytest.approx(by_hand(objective, kind, windows.ids[row], span), abs=1e-10)


def test_stepwise_costs_a_masked_model_one_pass_a_token_and_differs_from_the_product(windows: TokenBatch) -> None:
    product = SpanRecovery(longest=3).measure(mlm(), windows, piece_bytes=BYTES).scores["3"]
    stepwise = SpanRecoveryStepwise(length=3).measure(mlm(), windows, piece_bytes=BYTES).headline
    assert product.tokens == stepwise.tokens
    assert product.nats != pytest.approx(stepwise.nats)


@pytest.mark.parametrize(("build", "kind"), [(plm, "chain"), (clm, "left")])
def test_left_to_right_is_the_chain_rule_of_the_second_half(windows: TokenBatch, build: Build, kind: str) -> None:
    objective = build()
    found = LeftToRightYardstick().measure(objective, windows, piece_bytes=BYTES)
    for row in range(3):
        expected = by_hand(objective, kind, windows.ids[row], list(range(8, 16)))
        assert found.headline.nats[row] == pytest.approx(expected, abs=1e-10)
    assert found.headline.tokens == (8, 8, 8)


@pytest.mark.parametrize("build", [plm, mlm, clm])
def test_a_hidden_token_has_probabilities_that_sum_to_one(windows: TokenBatch, build: Build) -> None:
    """Over every token that could stand there, so the conditional may not depend on the one that does."""
    objective = build()
    place = int(sample_spans(windows, length=1, count=1, seed=0, purpose="cloze")[0].nonzero()[0, 1])
    total = 0.0
    for token in range(VOCAB.size):
        ids = windows.ids.clone()
        ids[0, place] = token
        score = Cloze(targets=1).measure(objective, TokenBatch.of(ids), piece_bytes=BYTES).headline
        total += math.exp(-score.nats[0])
    assert total == pytest.approx(1.0, abs=1e-12)


def test_two_token_spans_of_the_chain_rule_sum_to_one_over_all_pairs(windows: TokenBatch) -> None:
    place = int(sample_spans(windows, length=2, count=1, seed=0, purpose="spans")[0].nonzero()[0, 1])
    pairs = torch.cartesian_prod(torch.arange(VOCAB.size), torch.arange(VOCAB.size))
    for build in (plm, clm, mlm):
        ids = windows.ids[:1].repeat(len(pairs), 1)
        ids[:, place : place + 2] = pairs
        hidden = torch.zeros(len(pairs), 1, 16, dtype=torch.bool)
        hidden[:, 0, place : place + 2] = True
        objective = build()
        way = choose_way(objective, (CHAIN, PRODUCT, LEFT_CONTEXT))
        with evaluating(objective):
            nats = way.score(objective, TokenBatch.of(ids), hidden)
        assert float((-nats).exp().sum()) == pytest.approx(1.0, abs=1e-12)


def test_every_model_is_scored_on_the_same_tokens_and_left_as_it_was(windows: TokenBatch) -> None:
    found = []
    for build in (plm, mlm, clm):
        objective = build().train()
        found.append(measure_all(objective, windows, piece_bytes=BYTES, seed=4))
        assert objective.training
        again = measure_all(objective, windows, piece_bytes=BYTES, seed=4)
        assert [m.scores for m in again.values()] == [m.scores for m in found[-1].values()]
    for name in (yardstick.name for yardstick in YARDSTICKS):
        counted = [[(s.tokens, s.bytes) for s in f[name].scores.values()] for f in found if f[name].scores]
        assert len(counted) >= 2
        assert all(one == counted[0] for one in counted)
