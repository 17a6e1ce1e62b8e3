"""Any-order autoregression in one shot: a random cut of a random order."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from anyorder.core import ONE_SHOT, Draws, Plan, TokenBatch

from .goals import take_first


@dataclass(frozen=True, kw_only=True)
class AnyOrderCut:
    """Draw a step ``t`` of 1 to ``D`` and predict all ``D - t + 1`` tokens from it on in a random order, at once.

    ``D`` is the row's number of tokens that may be predicted. The weight ``D / (D - t + 1)`` makes the sum an unbiased
    estimate of the row's negative log-likelihood, averaged over orders (OA-ARDM, Hoogeboom et al. 2022).
    """

    @property
    def traits(self) -> frozenset[str]:
        return frozenset({ONE_SHOT})

    def num_targets(self, length: int) -> int:
        return length

    def sample(self, batch: TokenBatch, *, generator: Draws) -> Plan:
        eligible = ~batch.fixed & ~batch.padding
        tokens = eligible.sum(dim=1, keepdim=True)  # D, [B, 1]
        unseen = tokens - generator.randint(tokens, 1)  # D - t + 1
        target = take_first(generator.bits(batch.length), eligible, unseen, most=batch.length)
        weight = tokens / unseen.clamp(min=1)
        return Plan(
            time=target.long(),
            target=target,
            weight=torch.where(target, weight, 0.0),
            count=tokens[:, 0].float(),
        )
