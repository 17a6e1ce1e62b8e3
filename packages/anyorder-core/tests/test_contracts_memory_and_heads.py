"""The contracts of memories and loss heads catch wrong ones, each by the law it breaks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from held_to import catches, keep
from torch import Tensor, nn

from anyorder.core import TARGETS, LossOutput, MemoryState, Readout, Slots, Streams, TokenBatch
from anyorder.core.testing import LossHeadContract, MemoryContract, ReferenceMemory


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
