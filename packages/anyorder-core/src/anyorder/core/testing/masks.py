"""What every mask builder must keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from ..batch import TokenBatch
from ..draws import Draws
from ..errors import AnyorderError
from ..plan import Plan
from ..protocols import MaskBuilder
from ..slots import DEATH, SPAN, TARGETS, Slots, Streams
from ..vocab import Vocab
from .examples import example_batches, example_plan, overlapping_batches, take_rows
from .leaks import AuditedSegment, find_leaks
from .reference import ReferenceMemory


class MaskBuilderContract:
    """Subclass as ``TestMyMasks`` and override ``make``; pytest then runs every law on it.

    Prediction ``p`` of the readout ``targets`` is of a row's ``p``-th target in natural order; a builder that cannot
    predict some target gives it weight 0.
    """

    lengths: Sequence[int] = (1, 2, 7, 24, 63)
    vocab = Vocab(size=60)

    def make(self) -> MaskBuilder:
        """The mask builder under test."""
        raise NotImplementedError

    def plan(self, batch: TokenBatch) -> Plan:
        """A plan with the traits that the builder needs."""
        return example_plan(batch, traits=self.make().needs)

    def build(self, builder: MaskBuilder, batch: TokenBatch, plan: Plan, *, seed: int = 0) -> Streams:
        return builder.build(
            batch,
            plan,
            vocab=self.vocab,
            num_targets=batch.length,
            generator=Draws(seed, rows=batch.rows, purpose="corruption"),
        )

    def cases(self, builder: MaskBuilder) -> Iterator[tuple[str, TokenBatch, Plan, Streams]]:
        for length in self.lengths:
            for kind, batch in example_batches(length, vocab=self.vocab).items():
                plan = self.plan(batch).within_blocks(batch)
                yield f"{kind}, length {length}", batch, plan, self.build(builder, batch, plan)

    def test_is_a_mask_builder(self) -> None:
        builder = self.make()
        assert isinstance(builder, MaskBuilder)
        assert isinstance(builder.needs, frozenset)
        assert isinstance(builder.scoring(), MaskBuilder)
        assert builder.scoring().needs <= builder.needs

    def test_content_begins_with_the_tokens_in_natural_order(self) -> None:
        for name, batch, _, streams in self.cases(self.make()):
            place = torch.arange(batch.length).expand(batch.rows, -1)
            assert torch.equal(streams.content.position[:, : batch.length], place), name
            assert torch.equal(streams.content.doc[:, : batch.length], batch.doc), name
            given = ~self.plan(batch).target
            assert torch.equal(streams.content.ids[:, : batch.length][given], batch.ids[given]), name

    def test_slots_keep_their_static_promises(self) -> None:
        for name, batch, _, streams in self.cases(self.make()):
            for slots in (streams.content, streams.query):
                if slots is None:
                    continue
                _check_slots(name, slots)
                if batch.segment is not None:
                    assert slots.segment is not None, f"{name}: segments were dropped"
                if batch.direction is not None:
                    assert slots.direction is not None, f"{name}: the direction was dropped"

    def test_rules_name_what_the_slots_use(self) -> None:
        """What an attention backend is told before anything runs."""
        builder = self.make()
        rules: frozenset[str] = getattr(builder, "rules", frozenset())
        for name, _, _, streams in self.cases(builder):
            for slots in (streams.content, streams.query):
                if slots is None:
                    continue
                limited = slots.back is not None or slots.ahead is not None
                assert not limited or SPAN in rules, f"{name}: spans are limited, and rules is {set(rules)}"
                assert slots.death is None or DEATH in rules, f"{name}: slots expire, and rules is {set(rules)}"

    def test_readout_is_of_the_targets_in_natural_order(self) -> None:
        for name, batch, plan, streams in self.cases(self.make()):
            readout = streams.readouts[TARGETS]
            slots = streams.content if readout.stream == "content" else streams.query
            assert slots is not None, name
            for tensor in (readout.index, readout.labels, readout.weight):
                assert tensor.shape == (batch.rows, batch.length), f"{name}: P must be num_targets"
            assert int(readout.index.min()) >= 0, name
            assert int(readout.index.max()) < slots.count, name
            for row in range(batch.rows):
                target = plan.target[row]
                count = int(target.sum())
                weight = readout.weight[row]
                read = weight[:count] != 0
                assert not weight[count:].any(), f"{name}: a prediction of nothing has weight"
                assert torch.equal(weight[:count][read], plan.weight[row, target][read]), f"{name}: weights"
                assert torch.equal(readout.labels[row, :count][read], batch.ids[row, target][read]), name

    def test_most_targets_are_predicted(self) -> None:
        """A builder may pass over a target without a place to read it, but not over the bulk of them."""
        batch = example_batches(max(self.lengths), vocab=self.vocab)["plain"]
        plan = self.plan(batch)
        readout = self.build(self.make(), batch, plan).readouts[TARGETS]
        assert int((readout.weight != 0).sum()) >= int(plan.target.sum()) - batch.rows

    def test_too_many_targets_are_refused(self) -> None:
        batch = example_batches(max(self.lengths), vocab=self.vocab)["plain"]
        plan = self.plan(batch)
        most = int(plan.target.sum(dim=1).max())
        try:
            self.make().build(batch, plan, vocab=self.vocab, num_targets=most - 1, generator=Draws(0, rows=batch.rows))
        except AnyorderError:
            return
        raise AssertionError("a row with more targets than places must be refused, not cut")

    def test_same_generator_same_streams(self) -> None:
        builder = self.make()
        for (name, _, _, one), (_, _, _, two) in zip(self.cases(builder), self.cases(builder), strict=True):
            assert torch.equal(one.content.ids, two.content.ids), name

    def test_rows_are_independent(self) -> None:
        builder = self.make()
        batch = example_batches(max(self.lengths), vocab=self.vocab)["padded on the left"]
        plan = self.plan(batch)
        whole = self.build(builder, batch, plan)
        chosen = [2, 0]
        part = builder.build(
            take_rows(batch, chosen),
            take_rows(plan, chosen),
            vocab=self.vocab,
            num_targets=batch.length,
            generator=Draws(0, rows=chosen, purpose="corruption"),
        )
        assert torch.equal(whole.content.ids[chosen], part.content.ids)
        assert torch.equal(whole.content.birth[chosen], part.content.birth)
        assert torch.equal(whole.readouts[TARGETS].index[chosen], part.readouts[TARGETS].index)

    def test_scoring_hides_every_target_and_draws_nothing(self) -> None:
        scoring = self.make().scoring()
        for name, batch, plan, streams in self.cases(scoring):
            revealed = streams.readouts[TARGETS].revealed
            assert revealed is None or not revealed.any(), f"{name}: a target is revealed"
            other = self.build(scoring, batch, plan, seed=1)
            assert torch.equal(streams.content.ids, other.content.ids), f"{name}: a draw decides"

    def test_the_batch_is_left_alone(self) -> None:
        builder = self.make()
        for kind, batch in example_batches(max(self.lengths), vocab=self.vocab).items():
            ids = batch.ids.clone()
            self.build(builder, batch, self.plan(batch))
            assert torch.equal(ids, batch.ids), f"{kind}: the batch's ids were written to"

    def test_no_leak(self) -> None:
        for builder in (self.make(), self.make().scoring()):
            for name, batch, plan, streams in self.cases(builder):
                leaks = find_leaks([AuditedSegment.of(batch, plan, streams)])
                assert not leaks, f"{name}: {leaks[0]}"

    def test_no_leak_through_memory(self) -> None:
        for builder in (self.make(), self.make().scoring()):
            for length in self.lengths:
                reuse_len = (length + 1) // 2
                segments = []
                for number, batch in enumerate(overlapping_batches(length, reuse_len=reuse_len, vocab=self.vocab)):
                    plan = example_plan(batch, traits=builder.needs, seed=number).within_blocks(batch)
                    streams = self.build(builder, batch, plan, seed=number)
                    segments.append(AuditedSegment.of(batch, plan, streams, start=number * reuse_len))
                memory = ReferenceMemory(mem_len=2 * length, reuse_len=reuse_len)
                leaks = find_leaks(segments, memory=memory)
                assert not leaks, f"length {length}: {leaks[0]}"


def _check_slots(name: str, slots: Slots) -> None:
    for field in (slots.ids, slots.position, slots.birth, slots.time, slots.doc):
        assert field.shape == slots.position.shape, f"{name}: shapes of slots differ"
    if slots.count == 0:
        return
    assert int(slots.position.min()) >= slots.low, f"{name}: a position below low"
    assert int(slots.position.max()) < slots.high, f"{name}: a position at or above high"
    if slots.contiguous:
        run = slots.low + torch.arange(slots.count)
        assert torch.equal(slots.position, run.expand_as(slots.position)), f"{name}: not contiguous"
