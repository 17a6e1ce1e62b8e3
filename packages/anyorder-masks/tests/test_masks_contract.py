"""Every mask builder under the contract that a stranger's is held to."""

from __future__ import annotations

from anyorder.core import MaskBuilder
from anyorder.core.testing import MaskBuilderContract
from anyorder.masks import InPlace, Shift, TwoStream


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
