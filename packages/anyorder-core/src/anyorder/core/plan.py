"""Which tokens are predicted, and in what order: about tokens, knowing no stream."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from .batch import TokenBatch
from .struct import TensorStruct

CONSECUTIVE = "consecutive"
ONE_SHOT = "one_shot"
PERMUTATION = "permutation"
JOINT = "joint"
"""What an order may demand of masks: that tokens of one time see each other, the targets hidden in the input."""


@dataclass(frozen=True, kw_only=True)
class Plan(TensorStruct):
    """An order over the tokens of a row.

    Attributes:
        time: when a token's content becomes known; 0 for what is given, a target's number in the order otherwise.
            Tokens of one time are known together.
        target: whether the token is predicted. Never true for a fixed token.
        weight: weight of each target's loss (1, or 1/t and the like); read where ``target`` is true.
        count: what a row's weighted losses are divided by, in tokens. None, for a mean over targets: the sum of the
            weights. A sampler whose weights make a bound of the whole row's likelihood (1/t in masked diffusion) gives
            the row's number of tokens: dividing by the weights that were drawn would bias it.
    """

    time: Int[Tensor, "B L"]
    target: Bool[Tensor, "B L"]
    weight: Float[Tensor, "B L"]
    count: Float[Tensor, " B"] | None = None

    @classmethod
    def of(
        cls, time: Int[Tensor, "B L"], target: Bool[Tensor, "B L"], weight: Float[Tensor, "B L"] | None = None
    ) -> Plan:
        """A plan in which every target weighs 1 unless told otherwise."""
        return cls(time=time, target=target, weight=target.float() if weight is None else weight)

    def within_blocks(self, batch: TokenBatch) -> Plan:
        """Order the blocks of the batch one after another, keeping the order inside each.

        Every sampler's plan passes through here, so that no sampler, a stranger's included, can let the part of a
        segment that memory keeps see the part that is read again in the next segment.
        """
        if batch.block is None:
            return self
        span = self.time.amax(dim=1, keepdim=True) + 1  # [B, 1]
        return replace(self, time=self.time + batch.block * span)

    @classmethod
    def from_order(cls, order: Int[Tensor, "B L"], *, given: int = 0) -> Plan:
        """The plan of an explicit factorisation order: ``order[b, r]`` is the index of the token at rank ``r``.

        The first ``given`` tokens of the order are context, known at time 0; the others are targets.
        """
        rank = torch.empty_like(order)
        rank.scatter_(1, order, torch.arange(order.shape[1], device=order.device).expand_as(order))
        time = (rank - given + 1).clamp(min=0)
        return cls.of(time, time > 0)
