"""The contracts pass right parts and catch wrong ones, each by the law it breaks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from anyorder.core import (
    CONSECUTIVE,
    DEATH,
    ONE_SHOT,
    TARGETS,
    AttentionRequest,
    DistanceTerm,
    Draws,
    LossOutput,
    MatchTerm,
    MemoryState,
    Plan,
    Readout,
    ScoreBias,
    Slots,
    Streams,
    TokenBatch,
    Visibility,
    Vocab,
)
from anyorder.core.testing import (
    AttentionBackendContract,
    LossHeadContract,
    MaskBuilderContract,
    MemoryContract,
    OrderSamplerContract,
    PositionBiasContract,
    ReferenceMemory,
    ReferenceTwoStream,
    reference_attention,
)


def case_of(contract: type, make: Callable[[], Any], **settings: Any) -> Any:
    return type("Case", (contract,), {"make": lambda self: make(), **settings})()


def catches(law: str, contract: type, make: Callable[[], Any], **settings: Any) -> bool:
    """Whether a law of the contract fails for a part."""
    try:
        getattr(case_of(contract, make, **settings), f"test_{law}")()
    except AssertionError:
        return True
    return False


def keep(contract: type, make: Callable[[], Any], **settings: Any) -> None:
    """Hold a part to every law of the contract."""
    case = case_of(contract, make, **settings)
    laws = [name for name in dir(case) if name.startswith("test_")]
    assert laws
    for law in laws:
        getattr(case, law)()


class Sampler:
    """A right one: a random order, half of the free tokens as targets."""

    traits: frozenset[str] = frozenset()

    def num_targets(self, length: int) -> int:
        return length

    def sample(self, batch: TokenBatch, *, generator: Draws) -> Plan:
        rank = generator.permutation(batch.length) + 1
        target = generator.bernoulli(0.5, batch.length) & ~batch.fixed
        return Plan.of(torch.where(target, rank, 0), target)


class PredictsFixed(Sampler):
    def sample(self, batch: TokenBatch, *, generator: Draws) -> Plan:
        return super().sample(replace(batch, fixed=torch.zeros_like(batch.fixed)), generator=generator)


class PromisesTooFew(Sampler):
    def num_targets(self, length: int) -> int:
        return length // 4


class PredictsNothing(Sampler):
    def sample(self, batch: TokenBatch, *, generator: Draws) -> Plan:
        return Plan.of(torch.zeros_like(batch.ids), torch.zeros_like(batch.fixed))


class IgnoresTheKey(Sampler):
    def sample(self, batch: TokenBatch, *, generator: Draws) -> Plan:
        target = (torch.rand(batch.ids.shape) < 0.5) & ~batch.fixed
        return Plan.of(target.long(), target)


class MixesRows(Sampler):
    def sample(self, batch: TokenBatch, *, generator: Draws) -> Plan:
        rank = torch.randperm(batch.ids.numel(), generator=generator.torch()).view(batch.ids.shape) + 1
        target = ~batch.fixed
        return Plan.of(torch.where(target, rank, 0), target)


class WritesToTheBatch(Sampler):
    def sample(self, batch: TokenBatch, *, generator: Draws) -> Plan:
        plan = super().sample(batch, generator=generator)
        batch.ids[plan.target] = 6
        return plan


class SaysConsecutive(Sampler):
    traits = frozenset({CONSECUTIVE})


class SaysOneShot(Sampler):
    traits = frozenset({ONE_SHOT})


class NegativeTime(Sampler):
    def sample(self, batch: TokenBatch, *, generator: Draws) -> Plan:
        plan = super().sample(batch, generator=generator)
        return replace(plan, time=plan.time - 1)


class EndlessWeight(Sampler):
    def sample(self, batch: TokenBatch, *, generator: Draws) -> Plan:
        plan = super().sample(batch, generator=generator)
        return replace(plan, weight=plan.weight / plan.time.float().sub(1).clamp(min=0))


class OneTimeForAll(Sampler):
    """Not ordered: with the plan as it is, no leak; it only is no one-shot plan."""

    traits = frozenset({ONE_SHOT})

    def sample(self, batch: TokenBatch, *, generator: Draws) -> Plan:
        return Plan.of(torch.zeros_like(batch.ids), super().sample(batch, generator=generator).target)


@pytest.mark.parametrize(
    ("sampler", "law"),
    [
        (PredictsFixed, "fixed_tokens_and_padding_are_never_targets"),
        (PromisesTooFew, "no_more_targets_than_promised"),
        (PredictsNothing, "something_is_predicted"),
        (IgnoresTheKey, "same_generator_same_plan"),
        (MixesRows, "rows_are_independent"),
        (WritesToTheBatch, "the_batch_is_left_alone"),
        (SaysConsecutive, "traits_hold"),
        (SaysOneShot, "traits_hold"),
        (OneTimeForAll, "traits_hold"),
        (NegativeTime, "times_and_weights_are_sound"),
        (EndlessWeight, "times_and_weights_are_sound"),
    ],
)
def test_wrong_samplers_are_caught(sampler: type[Sampler], law: str) -> None:
    assert catches(law, OrderSamplerContract, sampler, lengths=(1, 7, 16), steps=1)


def test_a_right_sampler_passes() -> None:
    keep(OrderSamplerContract, Sampler)


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


@dataclass(frozen=True)
class Attention:
    """A right backend, and by ``fault`` wrong ones."""

    fault: str = ""
    name: str = "plain"

    def refuse(self, request: AttentionRequest) -> str | None:
        return None

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        visibility: Visibility,
        bias: ScoreBias | None,
        scale: float,
        dropout: float = 0.0,
    ) -> Tensor:
        if self.fault == "expired keys are seen":
            visibility = replace(visibility, death=None)
        if self.fault == "spans have no limit":
            visibility = replace(visibility, back=None, ahead=None)
        seen = visibility.dense()[:, None]
        if self.fault == "padding is seen":
            seen = seen | (visibility.key_doc == -2)[:, None, None, :]
        score = scale * (query @ key.mT)
        if bias is not None:
            dense = bias.dense().detach() if self.fault == "no gradient to the bias" else bias.dense()
            score = score + (dense if self.fault == "bias outside the scale" else scale * dense)
        fill = torch.finfo(score.dtype).min if self.fault == "uniform over nothing" else -torch.inf
        weights = score.masked_fill(~seen, fill).softmax(dim=-1)
        if self.fault not in ("uniform over nothing", "nan over nothing"):
            weights = torch.where(seen, weights, 0.0) if seen.all() else self._safe(score, seen)
        out = self._drop(weights, dropout) @ value
        if self.fault == "dropout drawn again for the gradient" and dropout:
            again = self._drop(weights, dropout) @ value
            out = again + (out - again).detach()
        if self.fault == "uninitialised":
            out = out + 0 * torch.empty_like(out)
        return out.half().to(out.dtype) if self.fault == "low precision" else out

    def _drop(self, weights: Tensor, p: float) -> Tensor:
        if p == 0.0 or self.fault == "no dropout":
            return weights
        fault = self.fault
        like = weights[:, :1] if fault == "one dropout for all heads" else weights
        if fault == "one dropout for neighbours":
            like = weights[..., ::2]
        keep = torch.rand_like(like) >= p**2 if fault == "dropout too rare" else torch.rand_like(like) >= p
        if fault == "one dropout for neighbours":
            keep = keep.repeat_interleave(2, dim=-1)[..., : weights.shape[-1]]
        return weights * keep / (1.0 if fault == "dropout without its scale" else 1.0 - p)

    @staticmethod
    def _safe(score: Tensor, seen: Tensor) -> Tensor:
        finite = score.masked_fill(~seen, torch.finfo(score.dtype).min).softmax(dim=-1)
        return torch.where(seen, finite, 0.0)


@pytest.mark.parametrize(
    ("fault", "law"),
    [
        ("bias outside the scale", "outputs_and_gradients_are_the_definition"),
        ("no gradient to the bias", "outputs_and_gradients_are_the_definition"),
        ("low precision", "outputs_and_gradients_are_the_definition"),
        ("uniform over nothing", "an_empty_reader_gets_zeros_and_passes_no_gradient"),
        ("nan over nothing", "an_empty_reader_gets_zeros_and_passes_no_gradient"),
        ("padding is seen", "hidden_keys_do_not_matter"),
        ("uninitialised", "nothing_uninitialised_is_read"),
        ("no gradient to the bias", "any_input_alone_may_need_a_gradient"),
        ("low precision", "without_gradients_the_output_is_the_definition"),
        ("expired keys are seen", "outputs_and_gradients_are_the_definition"),
        ("spans have no limit", "outputs_and_gradients_are_the_definition"),
        ("no dropout", "dropout_drops_its_share_and_each_weight_by_itself"),
        ("no dropout", "dropout_keeps_the_mean_and_empty_readers_zero"),
        ("dropout too rare", "dropout_drops_its_share_and_each_weight_by_itself"),
        ("one dropout for all heads", "dropout_drops_its_share_and_each_weight_by_itself"),
        ("one dropout for neighbours", "dropout_drops_its_share_and_each_weight_by_itself"),
        ("dropout without its scale", "dropout_keeps_the_mean_and_empty_readers_zero"),
        ("dropout without its scale", "dropout_is_one_draw_for_output_and_gradients"),
        ("dropout drawn again for the gradient", "dropout_is_one_draw_for_output_and_gradients"),
    ],
)
def test_wrong_attention_is_caught(fault: str, law: str) -> None:
    assert catches(law, AttentionBackendContract, lambda: Attention(fault), lengths=(1, 7))


def test_the_reference_is_attention_over_the_keys_that_are_seen() -> None:
    """Reader by reader, over the keys it sees and no others."""
    query, key, value, bias = (torch.randn(2, 3, 4, n, dtype=torch.float64) for n in (5, 5, 5, 4))
    visible = torch.rand(2, 4, 4) < 0.5
    visible[0, 1] = False
    out = reference_attention(query, key, value, visible=visible, bias=bias, scale=0.7)
    for b in range(2):
        for h in range(3):
            for q in range(4):
                keys = visible[b, q].nonzero().flatten()
                score = 0.7 * (key[b, h, keys] @ query[b, h, q] + bias[b, h, q, keys])
                expected = score.softmax(dim=0) @ value[b, h, keys]
                assert torch.allclose(out[b, h, q], expected, atol=1e-14)
    assert not out[0, :, 1].any()


def test_right_attention_passes() -> None:
    keep(AttentionBackendContract, Attention)


class Position(nn.Module):
    """A right bias, with a distance and a segment term, and by ``fault`` wrong ones."""

    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.fault = fault
        self.project = nn.Parameter(torch.zeros(2, 12, 6))
        self.match = nn.Parameter(torch.zeros(2, 6, 2))

    def forward(self, query: Tensor, *, readers: Slots, keys: Slots, distances: Tensor | None) -> ScoreBias | None:
        assert distances is not None
        assert readers.segment is not None
        assert keys.segment is not None
        backward = torch.zeros(1, dtype=torch.long)
        if readers.direction is not None and self.fault != "direction ignored":
            backward = (readers.direction < 0).long()
        codes = torch.einsum("gnw,hwd->ghdn", distances, self.project)[backward]
        contiguous = readers.contiguous and keys.contiguous
        off = int(self.fault == "shift off by one" and contiguous)
        distance = DistanceTerm(
            query=query,
            codes=codes.roll(off, dims=-1),
            reader=readers.position,
            key=keys.position,
            high=readers.high - keys.low,
            contiguous=contiguous,
        )
        if self.fault == "absolute":
            place = readers.position[:, None, :, None].double()
            distance = replace(distance, query=query + 0.01 * place)
        match = MatchTerm(scores=query @ self.match, reader=readers.segment, key=keys.segment)
        return ScoreBias((distance, match))


@pytest.mark.parametrize(
    ("fault", "law"),
    [
        ("shift off by one", "contiguous_slots_take_no_other_values"),
        ("direction ignored", "a_backward_row_has_distances_of_the_other_sign"),
        ("absolute", "only_distances_count"),
    ],
)
def test_wrong_position_biases_are_caught(fault: str, law: str) -> None:
    assert catches(law, PositionBiasContract, lambda: Position(fault))


def test_a_right_position_bias_passes() -> None:
    keep(PositionBiasContract, Position)


@dataclass(frozen=True, kw_only=True)
class Memory(ReferenceMemory):
    fault: str

    def extend(self, state: MemoryState, layer_inputs: tuple[Tensor, ...], *, content: Slots) -> MemoryState:
        if self.fault == "too long":
            return replace(self, fault="", mem_len=self.mem_len + 1).extend(state, layer_inputs, content=content)
        new = super().extend(state, layer_inputs, content=content)
        if self.fault == "turned":
            return replace(new, layers=tuple(layer.flip(1) for layer in new.layers))
        if self.fault == "not detached":
            return replace(new, layers=tuple(layer + layer_inputs[0].mean() for layer in new.layers))
        if self.fault == "in the segment":
            return replace(new, position=new.position + 1)
        if self.fault == "one document":
            return replace(new, doc=torch.zeros_like(new.doc))
        return new


@pytest.mark.parametrize(
    ("fault", "law"),
    [
        ("too long", "states_are_consistent_and_never_too_long"),
        ("in the segment", "states_are_consistent_and_never_too_long"),
        ("turned", "keeps_the_newest_tokens"),
        ("one document", "keeps_the_newest_tokens"),
        ("not detached", "states_are_detached"),
        ("not detached", "memory_takes_no_part_in_a_later_gradient"),
    ],
)
def test_wrong_memories_are_caught(fault: str, law: str) -> None:
    assert catches(law, MemoryContract, lambda: Memory(mem_len=9, reuse_len=4, fault=fault), mem_len=9)


@pytest.mark.parametrize(("mem_len", "reuse_len"), [(9, 4), (9, None), (3, 5), (0, None)])
def test_a_right_memory_passes(mem_len: int, reuse_len: int | None) -> None:
    keep(MemoryContract, lambda: ReferenceMemory(mem_len=mem_len, reuse_len=reuse_len), mem_len=mem_len)


@dataclass(frozen=True)
class Head:
    """A right head, and by ``fault`` wrong ones."""

    fault: str = ""

    def readout(self, batch: TokenBatch, streams: Streams) -> Readout:
        return streams.readouts[TARGETS]

    def __call__(self, hidden: Tensor, readout: Readout, *, embedding: Tensor) -> LossOutput:
        logits = hidden @ embedding.T
        loss = nn.functional.cross_entropy(logits.mT, readout.labels, reduction="none")
        weight = readout.weight
        if self.fault == "weights ignored":
            weight = torch.ones_like(weight)
        total, count = (loss * weight).sum(), weight.sum()
        if self.fault == "mean":
            total = total / count
        if self.fault == "row mean":
            total = (loss * weight).mean(dim=1).sum() * weight.shape[1] / hidden.shape[0]
        return LossOutput(
            loss_sum=total,
            weight_sum=readout.weight.sum() if self.fault == "count ignored" else readout.weight_sum,
            per_target=loss * weight if self.fault == "weighted twice" else loss,
        )


@pytest.mark.parametrize(
    ("fault", "law"),
    [
        ("weights ignored", "predictions_of_no_weight_change_nothing"),
        ("mean", "parts_add_up_to_the_whole"),
        ("mean", "nothing_to_predict_is_a_zero_that_can_be_differentiated"),
        ("row mean", "parts_add_up_to_the_whole"),
        ("weighted twice", "is_a_finite_sum_and_a_weight"),
        ("count ignored", "is_a_finite_sum_and_a_weight"),
    ],
)
def test_wrong_heads_are_caught(fault: str, law: str) -> None:
    assert catches(law, LossHeadContract, lambda: Head(fault))


def test_a_right_head_passes() -> None:
    keep(LossHeadContract, Head)
