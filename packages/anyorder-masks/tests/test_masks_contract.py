"""Every mask builder under the contract that a stranger's is held to."""

from __future__ import annotations

import torch

from anyorder.core import ONE_SHOT, MaskBuilder, Plan, TokenBatch
from anyorder.core.testing import MaskBuilderContract, example_plan
from anyorder.masks import BlockCopy, InPlace, MPNet, Shift, TwoStream


class TestTwoStream(MaskBuilderContract):
    def make(self) -> MaskBuilder:
        return TwoStream()


class TestShift(MaskBuilderContract):
    def make(self) -> MaskBuilder:
        return Shift()


class TestInPlace(MaskBuilderContract):
    def make(self) -> MaskBuilder:
        return InPlace()


class TestInPlaceMaskOnly(MaskBuilderContract):
    def make(self) -> MaskBuilder:
        return InPlace(mask=1.0, random=0.0)


class TestInPlaceKeep(MaskBuilderContract):
    def make(self) -> MaskBuilder:
        return InPlace(mask=0.0, random=0.0)


class TestInPlaceOrdered(MaskBuilderContract):
    def make(self) -> MaskBuilder:
        return InPlace(visibility="ordered")


class TestMPNet(MaskBuilderContract):
    def make(self) -> MaskBuilder:
        return MPNet()


class TestMPNetOfOneShot(MaskBuilderContract):
    def make(self) -> MaskBuilder:
        return MPNet(mask=1.0, random=0.0)

    def plan(self, batch: TokenBatch) -> Plan:
        return example_plan(batch, traits=frozenset({ONE_SHOT}))


class TestBlockCopy(MaskBuilderContract):
    def make(self) -> MaskBuilder:
        return BlockCopy()


class TestBlockCopyOfBlocks(MaskBuilderContract):
    def make(self) -> MaskBuilder:
        return BlockCopy()

    def plan(self, batch: TokenBatch) -> Plan:
        plan = example_plan(batch, traits=frozenset({ONE_SHOT}))
        time = torch.arange(batch.length).expand_as(plan.time) // 4 + 1
        return Plan.of(time, plan.target)
