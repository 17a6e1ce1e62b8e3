"""What every order sampler must keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields

import torch

from ..batch import TokenBatch
from ..draws import Draws
from ..plan import CONSECUTIVE, ONE_SHOT, Plan
from ..protocols import MaskBuilder, OrderSampler
from ..vocab import Vocab
from .examples import example_batches, overlapping_batches, take_rows
from .leaks import AuditedSegment, find_leaks
from .reference import ReferenceMemory, ReferenceTwoStream


class OrderSamplerContract:
    """Subclass as ``TestMySampler`` and override ``make``; pytest then runs every law on it.

    Attributes:
        lengths: row lengths to try. Narrow it where a sampler, by its settings, cannot serve some.
        steps: how many steps are drawn at each length.
    """

    lengths: Sequence[int] = (1, 2, 7, 24, 63)
    steps: int = 3
    vocab = Vocab(size=60)

    def make(self) -> OrderSampler:
        """The sampler under test."""
        raise NotImplementedError

    def builders(self) -> Sequence[MaskBuilder]:
        """Mask builders under which the sampler's plans must not leak."""
        return (ReferenceTwoStream(),)

    def samples(self) -> Iterator[tuple[str, TokenBatch, Plan, int]]:
        """Each kind of batch with a plan, named for messages, and how many targets are allowed."""
        sampler = self.make()
        for length in self.lengths:
            for kind, batch in example_batches(length, vocab=self.vocab).items():
                for step in range(self.steps):
                    plan = sampler.sample(batch, generator=Draws(5, step, rows=batch.rows, purpose="order"))
                    yield f"{kind}, length {length}, step {step}", batch, plan, sampler.num_targets(length)

    def test_is_an_order_sampler(self) -> None:
        sampler = self.make()
        assert isinstance(sampler, OrderSampler)
        assert isinstance(sampler.traits, frozenset)
        for length in self.lengths:
            most = sampler.num_targets(length)
            assert isinstance(most, int)
            assert 0 <= most <= length, f"num_targets({length}) is {most}"

    def test_plans_have_the_shape_of_their_batch(self) -> None:
        for name, batch, plan, _ in self.samples():
            for tensor in (plan.time, plan.target, plan.weight):
                assert tensor.shape == batch.ids.shape, name
            assert plan.time.dtype == torch.int64, name
            assert plan.target.dtype == torch.bool, name
            assert plan.weight.is_floating_point(), name

    def test_fixed_tokens_and_padding_are_never_targets(self) -> None:
        for name, batch, plan, _ in self.samples():
            assert not (plan.target & (batch.fixed | batch.padding)).any(), name

    def test_no_more_targets_than_promised(self) -> None:
        for name, _, plan, most in self.samples():
            assert int(plan.target.sum(dim=1).max()) <= most, name

    def test_something_is_predicted(self) -> None:
        assert any(bool(plan.target.any()) for _, _, plan, _ in self.samples())

    def test_times_and_weights_are_sound(self) -> None:
        for name, _, plan, _ in self.samples():
            assert int(plan.time.min()) >= 0, f"{name}: a time before the segment begins"
            weight = plan.weight[plan.target]
            assert bool((weight.isfinite() & (weight >= 0)).all()), f"{name}: weights of targets"
            if plan.count is not None:
                assert plan.count.shape == plan.time.shape[:1], f"{name}: one count a row"
                empty = plan.count[~plan.target.any(dim=1)]
                assert bool((plan.count[plan.target.any(dim=1)] > 0).all() and (empty >= 0).all()), f"{name}: counts"

    def test_same_generator_same_plan(self) -> None:
        for (name, _, plan, _), (_, _, again, _) in zip(self.samples(), self.samples(), strict=True):
            assert _equal(plan, again), name

    def test_rows_are_independent(self) -> None:
        sampler = self.make()
        for length in self.lengths:
            for kind, batch in example_batches(length, vocab=self.vocab).items():
                plan = sampler.sample(batch, generator=Draws(5, 1, rows=batch.rows, purpose="order"))
                chosen = [2, 0]
                part = take_rows(batch, chosen)
                alone = sampler.sample(part, generator=Draws(5, 1, rows=chosen, purpose="order"))
                same = take_rows(plan, chosen)
                assert _equal(same, alone), f"{kind}, length {length}: a row depends on its neighbours"

    def test_the_batch_is_left_alone(self) -> None:
        sampler = self.make()
        for kind, batch in example_batches(max(self.lengths), vocab=self.vocab).items():
            copy = batch.map(torch.clone)
            sampler.sample(batch, generator=Draws(0, rows=batch.rows))
            for field in fields(batch):
                before, after = getattr(copy, field.name), getattr(batch, field.name)
                if isinstance(before, torch.Tensor):
                    assert torch.equal(before, after), f"{kind}: {field.name} was written to"

    def test_traits_hold(self) -> None:
        traits = self.make().traits
        for name, batch, plan, _ in self.samples():
            if CONSECUTIVE in traits:
                same_doc = batch.doc[:, 1:] == batch.doc[:, :-1]
                late = plan.time[:, 1:] <= plan.time[:, :-1]
                assert not (plan.target[:, 1:] & same_doc & late).any(), f"{name}: not consecutive"
            if ONE_SHOT in traits:
                for row in range(batch.rows):
                    target = plan.target[row]
                    given = ~target & ~batch.padding[row]
                    times = plan.time[row, target].unique()
                    assert len(times) <= 1, f"{name}: targets at several times"
                    early = plan.time[row, given] < times if len(times) else torch.ones(1, dtype=torch.bool)
                    assert bool(early.all()), f"{name}: a given token is not given"

    def test_no_leak_under_any_mask_builder(self) -> None:
        for builder in self.builders():
            for name, batch, plan, most in self.samples():
                audited = self._audit(builder, batch, plan, most)
                assert not (leaks := find_leaks([audited])), f"{name}: {leaks[0]}"

    def test_no_leak_through_memory(self) -> None:
        sampler = self.make()
        for builder in self.builders():
            for length in self.lengths:
                reuse_len = (length + 1) // 2
                segments = []
                batches = overlapping_batches(length, reuse_len=reuse_len, vocab=self.vocab)
                for step, batch in enumerate(batches):
                    plan = sampler.sample(batch, generator=Draws(5, step, rows=batch.rows))
                    most = sampler.num_targets(length)
                    segments.append(self._audit(builder, batch, plan, most, start=step * reuse_len))
                memory = ReferenceMemory(mem_len=2 * length, reuse_len=reuse_len)
                leaks = find_leaks(segments, memory=memory)
                assert not leaks, f"length {length}: {leaks[0]}"

    def _audit(
        self, builder: MaskBuilder, batch: TokenBatch, plan: Plan, most: int, *, start: int = 0
    ) -> AuditedSegment:
        plan = plan.within_blocks(batch)
        generator = Draws(6, rows=batch.rows)
        streams = builder.build(batch, plan, vocab=self.vocab, num_targets=most, generator=generator)
        return AuditedSegment.of(batch, plan, streams, start=start)


def _equal(one: Plan, other: Plan) -> bool:
    """Equal where it counts: weights are read at targets only."""
    return (
        torch.equal(one.time, other.time)
        and torch.equal(one.target, other.target)
        and torch.equal(one.weight[one.target], other.weight[other.target])
        and (one.count is None) == (other.count is None)
        and (one.count is None or other.count is None or torch.equal(one.count, other.count))
    )
