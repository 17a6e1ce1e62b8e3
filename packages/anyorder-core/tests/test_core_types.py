"""Batches, plans, memory states and errors."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anyorder.core import (
    CONSECUTIVE,
    ONE_SHOT,
    DataError,
    Draws,
    IncompatiblePartsError,
    MemoryState,
    Plan,
    Readout,
    RecipeError,
    Slots,
    Streams,
    TokenBatch,
    Vocab,
    did_you_mean,
    map_tensors,
    require_compatible,
)


def test_a_batch_fills_in_what_is_usual() -> None:
    batch = TokenBatch.of(torch.tensor([[10, 11, 5]]), doc=torch.tensor([[0, 0, -1]]))
    assert (batch.rows, batch.length) == (1, 3)
    assert batch.fixed.tolist() == batch.padding.tolist() == [[False, False, True]]
    assert batch.fresh.tolist() == [False]
    batch.check(vocab_size=12)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (
            {"ids": torch.tensor([[10, 11], [12, 40]])},
            r"token id 40 at row 1, position 1 .*vocabulary of 40.*tokenizer",
        ),
        ({"ids": torch.tensor([[10, -3], [12, 13]])}, r"token id -3 at row 0, position 1"),
        ({"doc": torch.tensor([[0, -1], [0, 0]])}, "padding must be fixed"),
        ({"block": torch.tensor([[0, 1], [1, 0]])}, "must not decrease"),
    ],
)
def test_a_bad_batch_is_refused(change: dict[str, torch.Tensor], match: str) -> None:
    batch = TokenBatch.of(torch.tensor([[10, 11], [12, 13]]))
    batch.check(vocab_size=40)
    with pytest.raises(DataError, match=match):
        replace(batch, **change).check(vocab_size=40)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(0, 4), (2, 0)])
def test_an_empty_batch_is_refused(shape: tuple[int, int]) -> None:
    batch = TokenBatch.of(torch.zeros(shape, dtype=torch.long))
    with pytest.raises(DataError, match=f"the batch is empty: {shape[0]} rows of {shape[1]} tokens"):
        batch.check(vocab_size=40)


@given(st.permutations(range(6)), st.integers(0, 6))
def test_an_order_becomes_times(order: list[int], context: int) -> None:
    plan = Plan.from_order(torch.tensor([order]), given=context)
    for rank, place in enumerate(order):
        assert plan.time[0, place] == max(rank - context + 1, 0)
        assert plan.target[0, place] == (rank >= context)
    assert torch.equal(plan.weight, plan.target.float())


def test_blocks_come_one_after_another_and_keep_their_order() -> None:
    batch = TokenBatch.of(torch.zeros(2, 6, dtype=torch.long), block=torch.tensor([[0, 0, 0, 1, 1, 2]] * 2))
    plan = Plan.of(torch.tensor([[0, 2, 1, 0, 1, 0], [5, 0, 0, 0, 0, 9]]), torch.ones(2, 6, dtype=torch.bool))
    blocked = plan.within_blocks(batch)
    assert blocked.time.tolist() == [[0, 2, 1, 3, 4, 6], [5, 0, 0, 10, 10, 29]]
    assert plan.within_blocks(replace(batch, block=None)) is plan


def content(rows: int, length: int, *, segment: bool = False) -> Slots:
    position = torch.arange(length).expand(rows, -1)
    return Slots(
        ids=position, position=position, birth=position, time=position, doc=position * 0,
        segment=position * 0 + 1 if segment else None, low=0, high=length, contiguous=True,
    )  # fmt: skip


def memory(rows: int, length: int, *, segment: bool = False) -> MemoryState:
    return MemoryState(
        layers=(torch.ones(rows, length, 2),),
        position=torch.arange(-length, 0).expand(rows, -1),
        doc=torch.zeros(rows, length, dtype=torch.long),
        segment=torch.full((rows, length), 3) if segment else None,
    )


def test_memory_comes_before_the_segment() -> None:
    keys = memory(2, 3).before(content(2, 2))
    assert keys.position.tolist() == [[-3, -2, -1, 0, 1]] * 2
    assert keys.birth.tolist() == [[-1, -1, -1, 0, 1]] * 2
    assert (keys.low, keys.high, keys.contiguous, keys.segment) == (-3, 2, True, None)
    assert memory(2, 0).before(now := content(2, 2)) is now


def test_memory_keeps_segments_where_there_are_some() -> None:
    known = memory(1, 2, segment=True).before(content(1, 2, segment=True))
    unknown = memory(1, 2).before(content(1, 2, segment=True))
    assert known.segment is not None
    assert unknown.segment is not None
    assert known.segment.tolist() == [[3, 3, 1, 1]]
    assert unknown.segment.tolist() == [[0, 0, 1, 1]]


def test_memory_never_expires() -> None:
    now = replace(content(1, 2), death=torch.tensor([[4, 5]]))
    death = memory(1, 2).before(now).death
    assert death is not None
    assert death[0, 2:].tolist() == [4, 5]
    assert int(death[0, :2].min()) > 10**15


def test_dropped_rows_are_nobodys_keys() -> None:
    state = memory(2, 3).drop(torch.tensor([True, False]))
    assert state.doc.tolist() == [[-1] * 3, [0] * 3]
    assert state.layers[0].sum(dim=(1, 2)).tolist() == [0, 6]


def test_a_readout_gathers_its_slots() -> None:
    index = torch.tensor([[2, 0]])
    readout = Readout(stream="content", index=index, labels=index, weight=index.float())
    hidden = torch.arange(6.0).view(1, 3, 2)
    assert readout.gather(hidden).tolist() == [[[4.0, 5.0], [0.0, 1.0]]]


def test_structs_map_every_tensor_inside() -> None:
    index = torch.tensor([[0]])
    readout = Readout(stream="content", index=index, labels=index, weight=index.float())
    streams = Streams(content=content(1, 2), readouts={"targets": readout})
    moved = streams.to("meta")
    assert moved.content.ids.device.type == moved.readouts["targets"].weight.device.type == "meta"
    assert moved.content.death is None
    assert map_tensors((1, [torch.zeros(1)], "x"), lambda t: t + 1)[0] == 1


def test_control_ids_are_xlnets() -> None:
    assert Vocab(size=32000).control == (0, 1, 2, 3, 4, 5, 6)


def test_near_names() -> None:
    assert did_you_mean("permutaton", ["prefix", "permutation"]) == "; did you mean 'permutation'?"
    assert did_you_mean("xyz", ["prefix"]) == ""


def test_recipe_errors_name_their_place() -> None:
    error = RecipeError("is 3", path="objective.order.k", source="plm.yaml:12")
    assert str(error) == "plm.yaml:12: objective.order.k: is 3"
    assert str(RecipeError("is 3")) == "is 3"
    assert isinstance(error, ValueError)


@dataclass(frozen=True)
class Order:
    traits: frozenset[str]

    def num_targets(self, length: int) -> int:
        return length

    def sample(self, batch: TokenBatch, *, generator: Draws) -> Plan:
        raise NotImplementedError


@dataclass(frozen=True)
class Masks:
    needs: frozenset[str]

    def build(self, batch: TokenBatch, plan: Plan, *, vocab: Vocab, num_targets: int, generator: Draws) -> Streams:
        raise NotImplementedError

    def scoring(self) -> Masks:
        return self


def test_a_pair_that_cannot_work_is_refused_with_the_remedy() -> None:
    shift = Masks(frozenset({CONSECUTIVE}))
    require_compatible(Order(frozenset({CONSECUTIVE, ONE_SHOT})), shift)
    require_compatible(Order(frozenset()), Masks(frozenset()))
    with pytest.raises(
        IncompatiblePartsError,
        match=r"^objective: masks.type 'shift' needs an order with trait 'consecutive'; 'subset' offers 'one_shot': "
        r"use two_stream",
    ):
        require_compatible(Order(frozenset({ONE_SHOT})), shift, order_name="subset", masks_name="shift")
    with pytest.raises(IncompatiblePartsError, match="'Order' offers no trait"):
        require_compatible(Order(frozenset()), shift)
