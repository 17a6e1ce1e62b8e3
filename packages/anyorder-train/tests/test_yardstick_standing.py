"""What a yardstick is for a model is decided by its parts' traits, and never a wrong number."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch
from scored_by_hand import TEXT, VOCAB, make, text
from torch import Tensor, nn

from anyorder.core import (
    DataError,
    Draws,
    LossOutput,
    Plan,
    Readout,
    Streams,
    TokenBatch,
    Vocab,
)
from anyorder.losses import NextSentence
from anyorder.masks import InPlace, Shift, TwoStream
from anyorder.orders import AllTargets, LeftToRight, Permutation, Subset
from anyorder.train.yardsticks import Cloze, Measurement, Score, SpanRecovery, measure_all, sample_spans
from anyorder.train.yardsticks import LeftToRight as LeftToRightYardstick
from anyorder.train.yardsticks.plans import in_turn

BYTES = torch.ones(VOCAB.size, dtype=torch.long)


@pytest.fixture
def windows() -> TokenBatch:
    return TokenBatch.of(text(4, 12, seed=2))


def test_what_each_could_see_is_said() -> None:
    assert "both sides" in Cloze().defined_for(make(Permutation(), TwoStream())).sees
    assert "both sides" in Cloze().defined_for(make(Subset(), InPlace())).sees
    assert "left" in Cloze().defined_for(make(LeftToRight(), Shift())).sees
    assert "product" in SpanRecovery().defined_for(make(Subset(), InPlace())).sees
    assert "chain rule" in SpanRecovery().defined_for(make(Permutation(), TwoStream())).sees


def test_left_to_right_is_undefined_for_a_model_of_simultaneous_targets(windows: TokenBatch) -> None:
    found = LeftToRightYardstick().measure(make(Subset(), InPlace()), windows, piece_bytes=BYTES)
    assert found.standing.kind == "undefined"
    assert "at once" in found.standing.reason
    assert found.headline is None


def test_a_way_that_the_order_makes_in_training_goes_first() -> None:
    """Two streams can express any plan, but a left-to-right order has never shown them the right context."""
    assert "only the tokens to the left" in Cloze().defined_for(make(LeftToRight(), TwoStream())).sees
    untrained = LeftToRightYardstick().defined_for(make(Subset(), TwoStream()))
    assert untrained.kind == "exact"
    assert "never makes such plans" in untrained.reason


class Strange(TwoStream):
    needs = frozenset({"moonlight"})


def test_masks_with_needs_nobody_knows_are_undefined_with_the_reason() -> None:
    objective = make(Permutation(), TwoStream())
    objective.masks = Strange()
    standing = Cloze().defined_for(objective)
    assert standing.kind == "undefined"
    assert "'moonlight'" in standing.reason


class Leaky(TwoStream):
    """Claims to take any order, and lets every query see all content."""

    def build(self, batch: TokenBatch, plan: Plan, *, vocab: Vocab, num_targets: int, generator: Draws) -> Streams:
        streams = super().build(batch, plan, vocab=vocab, num_targets=num_targets, generator=generator)
        return replace(streams, query=replace(streams.query, time=streams.query.time + 1))

    def scoring(self) -> Leaky:
        return self


@pytest.mark.parametrize("yardstick", [Cloze(), SpanRecovery(), LeftToRightYardstick()])
def test_a_leak_gives_no_number(windows: TokenBatch, yardstick: Cloze) -> None:
    found = yardstick.measure(make(Permutation(), Leaky()), windows, piece_bytes=BYTES)
    assert found.standing.kind == "undefined"
    assert "seen where it is predicted" in found.standing.reason
    assert found.scores == {}


class Mute(TwoStream):
    """Gives no prediction of the last target."""

    def build(self, batch: TokenBatch, plan: Plan, *, vocab: Vocab, num_targets: int, generator: Draws) -> Streams:
        streams = super().build(batch, plan, vocab=vocab, num_targets=num_targets, generator=generator)
        readout = streams.readouts["targets"]
        weight = readout.weight.clone()
        weight[:, -1] = 0
        return replace(streams, readouts={"targets": replace(readout, weight=weight)})

    def scoring(self) -> Mute:
        return self


def test_a_target_that_is_not_predicted_gives_no_number(windows: TokenBatch) -> None:
    found = SpanRecovery().measure(make(Permutation(), Mute()), windows, piece_bytes=BYTES)
    assert found.standing.kind == "undefined"
    assert "no prediction of the token at position" in found.standing.reason


class Detector(nn.Module):
    """Says of each target whether it was replaced, as ELECTRA does: no probability of a token."""

    def readout(self, batch: TokenBatch, streams: Streams) -> Readout:
        readout = streams.readouts["targets"]
        return replace(readout, labels=torch.ones_like(readout.labels))

    def forward(self, hidden: Tensor, readout: Readout, *, embedding: Tensor) -> LossOutput:
        raise AssertionError("must not be asked")


def test_a_head_that_predicts_no_tokens_gives_no_number(windows: TokenBatch) -> None:
    found = Cloze().measure(make(Subset(), InPlace(), loss=Detector()), windows, piece_bytes=BYTES)
    assert found.standing.kind == "undefined"
    assert "does not predict the tokens" in found.standing.reason


def test_heads_that_ride_along_need_no_labels(windows: TokenBatch) -> None:
    alone = measure_all(make(Subset(), InPlace()), windows, piece_bytes=BYTES)
    joined = measure_all(make(Subset(), InPlace(), nsp=NextSentence(d_model=16)), windows, piece_bytes=BYTES)
    assert [m.scores for m in alone.values()] == [m.scores for m in joined.values()]


def test_a_model_that_never_saw_an_unordered_context_gets_an_ordered_one(windows: TokenBatch) -> None:
    given = Cloze().measure(make(Permutation(), TwoStream()), windows, piece_bytes=BYTES)
    for order in (Permutation(targets=AllTargets()), Permutation(context="ordered")):
        ordered = Cloze().measure(make(order, TwoStream()), windows, piece_bytes=BYTES)
        assert ordered.headline.tokens == given.headline.tokens
        assert ordered.headline.nats != pytest.approx(given.headline.nats)
    hidden = sample_spans(windows, length=3, count=1, seed=0, purpose="spans")[:, 0]
    (plan,) = in_turn(windows, hidden, context=Draws(0, rows=4))
    assert torch.equal(plan.time.sort(dim=1).values, torch.arange(1, 13).expand(4, -1))
    assert torch.equal(plan.time[hidden].view(4, 3), torch.tensor([10, 11, 12]).expand(4, -1))


def test_documents_padding_and_fixed_tokens_are_respected() -> None:
    ids = text(2, 12, seed=3)
    doc = torch.zeros_like(ids)
    doc[0, 6:] = 1
    doc[1, 8:] = -1
    fixed = doc < 0
    fixed[1, 4] = True
    windows = TokenBatch.of(ids, doc=doc, fixed=fixed)
    hidden = sample_spans(windows, length=1, count=12, seed=0, purpose="cloze").any(dim=1)
    assert hidden[0].nonzero()[:, 0].tolist() == [3, 4, 5, 7, 8]  # 6 begins a document
    assert hidden[1].nonzero()[:, 0].tolist() == [3, 5, 6, 7]
    spans = sample_spans(windows, length=3, count=12, seed=0, purpose="spans").any(dim=2)
    assert spans.sum(dim=1).tolist() == [1, 1]
    for build in (lambda: make(LeftToRight(), Shift()), lambda: make(Permutation(), TwoStream())):
        found = measure_all(build(), windows, piece_bytes=BYTES)
        assert all(m.standing.kind == "exact" for m in found.values())
        assert found["left_to_right"].headline.tokens == (5, 2)


@pytest.mark.parametrize("parts", [(Permutation, TwoStream), (Subset, InPlace)])
def test_in_windows_of_two_blocks_the_hidden_tokens_still_see_everything(parts: tuple[type, type]) -> None:
    order, masks = parts
    objective = make(order(), masks())
    ids = text(1, 16, seed=4)
    block = (torch.arange(16) >= 8).long()[None]
    (place,) = sample_spans(TokenBatch.of(ids, block=block), length=1, count=1, seed=0, purpose="cloze").nonzero()[:, 2]
    assert 10 <= place < 14

    def score(ids: Tensor) -> float:
        found = Cloze(targets=1).measure(objective, TokenBatch.of(ids, block=block), piece_bytes=BYTES)
        return found.headline.nats[0]

    whole = score(ids)
    assert whole != pytest.approx(
        Cloze(targets=1).measure(objective, TokenBatch.of(ids), piece_bytes=BYTES, seed=0).headline.nats[0]
    )
    for other in range(16):
        if other != place:
            changed = ids.clone()
            changed[0, other] = 9 + (ids[0, other] - 9 + 1) % TEXT
            assert score(changed) != pytest.approx(whole, abs=1e-9)


def test_windows_are_scored_alone(windows: TokenBatch) -> None:
    """The hidden tokens of a window depend on its number, and its score on nothing else."""
    objective = make(Permutation(), TwoStream())
    whole = Cloze(targets=2).measure(objective, windows, piece_bytes=BYTES).headline
    first = Cloze(targets=2).measure(objective, windows.map(lambda t: t[:1]), piece_bytes=BYTES).headline
    assert whole.nats[0] == pytest.approx(first.nats[0], abs=1e-5)


def test_no_windows_is_an_error(windows: TokenBatch) -> None:
    with pytest.raises(DataError, match="no held-out text"):
        measure_all(make(Subset(), InPlace()), windows.map(lambda t: t[:0]), piece_bytes=BYTES)


def test_a_measurement_survives_json(windows: TokenBatch) -> None:
    found = SpanRecovery().measure(make(Subset(), InPlace()), windows, piece_bytes=BYTES)
    assert Measurement.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_units_and_standard_error() -> None:
    score = Score(nats=(math.log(2) * 4, math.log(2) * 8), tokens=(2, 2), bytes=(4, 8))
    assert score.bits_per_token == pytest.approx(3.0)
    assert score.bits_per_byte == pytest.approx(1.0)
    assert score.standard_error == pytest.approx(1.0)  # of the window means 2 and 4
    assert math.isnan(Score(nats=(1.0, 0.0), tokens=(1, 0), bytes=(1, 0)).standard_error)
