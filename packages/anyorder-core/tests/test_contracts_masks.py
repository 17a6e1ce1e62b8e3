"""The contract of mask builders passes right ones and catches wrong ones, each by the law it breaks."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from held_to import catches, keep
from torch import Tensor

from anyorder.core import DEATH, TARGETS, Draws, Plan, Streams, TokenBatch, Vocab
from anyorder.core.testing import MaskBuilderContract, ReferenceTwoStream


def changed_query(streams: Streams, **changes: Tensor) -> Streams:
    assert streams.query is not None
    return replace(streams, query=replace(streams.query, **changes))  # type: ignore[arg-type]


class Masks(ReferenceTwoStream):
    """The reference, with ``change`` made to its streams."""

    def change(self, streams: Streams, batch: TokenBatch, plan: Plan, generator: Draws) -> Streams:
        return streams

    def build(self, batch: TokenBatch, plan: Plan, *, vocab: Vocab, num_targets: int, generator: Draws) -> Streams:
        streams = super().build(batch, plan, vocab=vocab, num_targets=num_targets, generator=generator)
        return self.change(streams, batch, plan, generator)


class ReadsAtBirth(Masks):
    def change(self, streams: Streams, batch: TokenBatch, plan: Plan, generator: Draws) -> Streams:
        assert streams.query is not None
        return changed_query(streams, time=streams.query.time + 1)


class IgnoresBlocks(Masks):
    """Context of every block is given, so what memory keeps has seen what is read again."""

    def change(self, streams: Streams, batch: TokenBatch, plan: Plan, generator: Draws) -> Streams:
        time = torch.where(plan.target, plan.time, 0)
        return replace(streams, content=replace(streams.content, birth=time, time=time.clamp(min=plan.time.max())))


class ForgetsWeights(Masks):
    def change(self, streams: Streams, batch: TokenBatch, plan: Plan, generator: Draws) -> Streams:
        readout = streams.readouts[TARGETS]
        return replace(streams, readouts={TARGETS: replace(readout, weight=(readout.weight != 0).float())})


class WeighsPadding(Masks):
    def change(self, streams: Streams, batch: TokenBatch, plan: Plan, generator: Draws) -> Streams:
        readout = streams.readouts[TARGETS]
        return replace(streams, readouts={TARGETS: replace(readout, weight=readout.weight + 1)})


class DropsPredictions(Masks):
    def change(self, streams: Streams, batch: TokenBatch, plan: Plan, generator: Draws) -> Streams:
        readout = streams.readouts[TARGETS]
        weight = readout.weight * (torch.arange(readout.weight.shape[1]) % 2)
        return replace(streams, readouts={TARGETS: replace(readout, weight=weight)})


class DrawsWhileScoring(Masks):
    def change(self, streams: Streams, batch: TokenBatch, plan: Plan, generator: Draws) -> Streams:
        ids = torch.where(plan.target, generator.randint(9, batch.length), batch.ids)
        return replace(streams, content=replace(streams.content, ids=ids))


class CorruptsContext(Masks):
    def change(self, streams: Streams, batch: TokenBatch, plan: Plan, generator: Draws) -> Streams:
        return replace(streams, content=replace(streams.content, ids=batch.ids + 1))


class LiesAboutBounds(Masks):
    def change(self, streams: Streams, batch: TokenBatch, plan: Plan, generator: Draws) -> Streams:
        assert streams.query is not None
        return replace(streams, query=replace(streams.query, high=streams.query.high // 2))


class Shuffles(Masks):
    def change(self, streams: Streams, batch: TokenBatch, plan: Plan, generator: Draws) -> Streams:
        return replace(streams, content=streams.content.map(lambda t: t.flip(1) if t.dim() == 2 else t))


class ExpiresUntold(Masks):
    def change(self, streams: Streams, batch: TokenBatch, plan: Plan, generator: Draws) -> Streams:
        never = torch.full_like(plan.time, torch.iinfo(plan.time.dtype).max)
        return replace(streams, content=replace(streams.content, death=never))


class NarrowsUntold(Masks):
    rules = frozenset({DEATH})

    def change(self, streams: Streams, batch: TokenBatch, plan: Plan, generator: Draws) -> Streams:
        return changed_query(streams, ahead=1)


class CutsTargets(Masks):
    def build(self, batch: TokenBatch, plan: Plan, *, vocab: Vocab, num_targets: int, generator: Draws) -> Streams:
        target = plan.target & (plan.target.long().cumsum(dim=1) <= num_targets)
        return super().build(
            batch, replace(plan, target=target), vocab=vocab, num_targets=num_targets, generator=generator
        )


@pytest.mark.parametrize(
    ("masks", "law"),
    [
        (ReadsAtBirth, "no_leak"),
        (IgnoresBlocks, "no_leak_through_memory"),
        (ForgetsWeights, "readout_is_of_the_targets_in_natural_order"),
        (WeighsPadding, "readout_is_of_the_targets_in_natural_order"),
        (DropsPredictions, "most_targets_are_predicted"),
        (DrawsWhileScoring, "scoring_hides_every_target_and_draws_nothing"),
        (CorruptsContext, "content_begins_with_the_tokens_in_natural_order"),
        (Shuffles, "content_begins_with_the_tokens_in_natural_order"),
        (LiesAboutBounds, "slots_keep_their_static_promises"),
        (ExpiresUntold, "rules_name_what_the_slots_use"),
        (NarrowsUntold, "rules_name_what_the_slots_use"),
        (CutsTargets, "too_many_targets_are_refused"),
    ],
)
def test_wrong_masks_are_caught(masks: type[Masks], law: str) -> None:
    assert catches(law, MaskBuilderContract, masks, lengths=(1, 7, 16))


def test_right_masks_pass() -> None:
    keep(MaskBuilderContract, ReferenceTwoStream)
