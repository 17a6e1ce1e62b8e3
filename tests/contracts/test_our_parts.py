"""Our own orders, biases, memories and heads under the contracts that a stranger's are held to."""

from __future__ import annotations

from collections.abc import Sequence

from anyorder.attention import SegmentBias, TransformerXLBias
from anyorder.core import LossHead, MaskBuilder, Memory, OrderSampler, PositionBias
from anyorder.core.testing import LossHeadContract, MemoryContract, OrderSamplerContract, PositionBiasContract
from anyorder.losses import (
    AdaptiveSoftmax,
    CrossEntropy,
    NextSentence,
    ReplacedTokens,
    SampledSoftmax,
    SentenceOrder,
)
from anyorder.masks import BlockCopy, InPlace, MPNet, Shift, TwoStream
from anyorder.memory import NoMemory, SegmentMemory
from anyorder.orders import (
    AllTargets,
    AnyOrderCut,
    LastFraction,
    LeftToRight,
    Mixture,
    NgramSpans,
    NoiseLevel,
    Permutation,
    Prefix,
    RightToLeft,
    SpanBlocks,
    Subset,
)


class OrderContract(OrderSamplerContract):
    """With every mask builder of ours that takes the order."""

    def builders(self) -> Sequence[MaskBuilder]:
        ours = (
            TwoStream(),
            Shift(),
            InPlace(),
            InPlace(mask=1.0, random=0.0),
            InPlace(visibility="ordered"),
            MPNet(),
            MPNet(mask=1.0, random=0.0),
            BlockCopy(),
        )
        return (*super().builders(), *(masks for masks in ours if masks.needs <= self.make().traits))


class TestLeftToRight(OrderContract):
    def make(self) -> OrderSampler:
        return LeftToRight()


class TestPrefix(OrderContract):
    def make(self) -> OrderSampler:
        return Prefix()


class TestPermutation(OrderContract):
    def make(self) -> OrderSampler:
        return Permutation()


class TestPermutationOfEverything(OrderContract):
    def make(self) -> OrderSampler:
        return Permutation(targets=LastFraction(k=1))


class TestPermutationWithOrderedContext(OrderContract):
    def make(self) -> OrderSampler:
        return Permutation(context="ordered")


class TestPermutationOfSpans(OrderContract):
    def make(self) -> OrderSampler:
        return Permutation(targets=NgramSpans(k=3))


class TestPermutationInBlocks(OrderContract):
    lengths = (4, 8, 24)

    def make(self) -> OrderSampler:
        return Permutation(perm_size=4, targets=NgramSpans(k=3, unit="tokens"))


class TestSubset(OrderContract):
    def make(self) -> OrderSampler:
        return Subset()


class TestSubsetOfWords(OrderContract):
    def make(self) -> OrderSampler:
        return Subset(unit="words", rate=0.3)


class TestSubsetOfSpans(OrderContract):
    def make(self) -> OrderSampler:
        return Subset(unit="spans", rate=0.3)


class TestSubsetKnownTogether(OrderContract):
    def make(self) -> OrderSampler:
        return Subset(rate=0.3, context="together")


class TestClozeLeftToRight(OrderContract):
    def make(self) -> OrderSampler:
        return LeftToRight(targets=LastFraction(k=3))


class TestPrefixOfSomeTargets(OrderContract):
    def make(self) -> OrderSampler:
        return Prefix(targets=LastFraction(k=3))


class TestRightToLeft(OrderContract):
    def make(self) -> OrderSampler:
        return RightToLeft()


class TestSpanBlocks(OrderContract):
    def make(self) -> OrderSampler:
        return SpanBlocks(targets=NgramSpans(k=3))


class TestNoiseLevel(OrderContract):
    def make(self) -> OrderSampler:
        return NoiseLevel()


class TestNoiseLevelOfOwnChance(OrderContract):
    def make(self) -> OrderSampler:
        return NoiseLevel(schedule="cosine", weight="one", antithetic=False)


class TestNoiseLevelOfBlocks(OrderContract):
    def make(self) -> OrderSampler:
        return NoiseLevel(block_size=4)


class TestAnyOrderCut(OrderContract):
    def make(self) -> OrderSampler:
        return AnyOrderCut()


class TestMixtureByRow(OrderContract):
    def make(self) -> OrderSampler:
        parts = [Permutation(targets=AllTargets()), LeftToRight(), NoiseLevel(block_size=8)]
        return Mixture(parts=parts, probabilities=[0.5, 0.2, 0.3])


class TestMixtureByBatch(OrderContract):
    def make(self) -> OrderSampler:
        return Mixture(parts=[AnyOrderCut(), NoiseLevel(), Subset()], probabilities=[1, 1, 1], per="batch")


class TestTransformerXLBias(PositionBiasContract):
    def make(self) -> PositionBias:
        return TransformerXLBias(d_model=self.width, n_head=self.heads, d_head=self.head_dim)


class TestSegmentBias(PositionBiasContract):
    def make(self) -> PositionBias:
        return SegmentBias(d_model=self.width, n_head=self.heads, d_head=self.head_dim)


class TestSegmentMemory(MemoryContract):
    mem_len = 20

    def make(self) -> Memory:
        return SegmentMemory(mem_len=20)


class TestSegmentMemoryThatReuses(MemoryContract):
    mem_len = 9

    def make(self) -> Memory:
        return SegmentMemory(mem_len=9, reuse_len=5)


class TestSegmentMemoryOfNothing(MemoryContract):
    mem_len = 0

    def make(self) -> Memory:
        return SegmentMemory(mem_len=0)


class TestNoMemory(MemoryContract):
    mem_len = 0

    def make(self) -> Memory:
        return NoMemory()


class HeadContract(LossHeadContract):
    """Our heads take their logits in float32, whatever the states are."""

    tolerance = 1e-5


class TestCrossEntropy(HeadContract):
    def make(self) -> LossHead:
        return CrossEntropy(vocab_size=self.vocab.size)


class TestCrossEntropyRegularised(HeadContract):
    def make(self) -> LossHead:
        return CrossEntropy(vocab_size=self.vocab.size, label_smoothing=0.1, z_loss=1e-2)


class TestAdaptiveSoftmax(HeadContract):
    def make(self) -> LossHead:
        return AdaptiveSoftmax(vocab_size=self.vocab.size, d_model=self.width, cutoffs=[15, 30])


class TestSampledSoftmaxOfEverything(HeadContract):
    """In training, with nothing left to chance."""

    def make(self) -> LossHead:
        return SampledSoftmax(vocab_size=self.vocab.size, candidates=self.vocab.size)


class TestSampledSoftmaxMeasured(HeadContract):
    def make(self) -> LossHead:
        return SampledSoftmax(vocab_size=self.vocab.size, candidates=5).eval()


class TestNextSentence(HeadContract):
    def make(self) -> LossHead:
        return NextSentence(d_model=self.width, cls_id=self.vocab.cls)


class TestSentenceOrder(HeadContract):
    def make(self) -> LossHead:
        return SentenceOrder(d_model=self.width, cls_id=self.vocab.cls)


class TestReplacedTokens(HeadContract):
    def make(self) -> LossHead:
        return ReplacedTokens(d_model=self.width)
