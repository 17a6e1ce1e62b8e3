"""Masked diffusion: how much of a row is hidden is itself random."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from anyorder.core import JOINT, ONE_SHOT, Draws, Plan, TokenBatch

from .checks import require_at_least, require_one_of, require_within

Schedule = Literal["linear", "cosine"]
LossWeight = Literal["bound", "one"]


@dataclass(frozen=True, kw_only=True)
class NoiseLevel:
    """Draw a noise level ``t``, hide each token with probability ``p(t)``, and predict the hidden ones at once.

    With weights ``p'(t) / p(t)``, divided by the number of tokens, the loss is a bound of the row's negative
    log-likelihood a token, whatever the schedule (MDLM; LLaDA, eq. 3): that is 1/t for the linear one. It is
    the same in expectation as that of an autoregressive model over all orders.

    Args:
        schedule: 'linear': ``p(t) = t``, which is MDLM's log-linear and LLaDA's schedule; 'cosine':
            ``p(t) = 1 - cos(pi t / 2)``, which spends more of its draws on little noise.
        weight: 'bound', or 'one' for the plain mean over hidden tokens (MaskGIT), which is no bound.
        antithetic: spread the noise levels evenly over neighbouring rows, so that the loss of a batch varies less;
            each row's level is still uniform. MDLM does so with one offset a batch.
        min_level: least ``t`` (1e-3 in LLaDA and MDLM), against weights without limit; ``t`` is uniform from it to 1.
        block_size: each run of so many tokens has a noise level of its own and becomes known at one time, after the
            runs before it (block diffusion, BD3-LM): read it with 'block_copy'. None for the whole row at once.

    Raises:
        RecipeError: a value out of range.
    """

    schedule: Schedule = "linear"
    weight: LossWeight = "bound"
    antithetic: bool = True
    min_level: float = 1e-3
    block_size: int | None = None

    def __post_init__(self) -> None:
        require_one_of("schedule", self.schedule, Schedule)
        require_one_of("weight", self.weight, LossWeight)
        require_within("min_level", self.min_level, 0.0, 1.0, open_low=True)
        if self.block_size is not None:
            require_at_least("block_size", self.block_size, 1)

    @property
    def traits(self) -> frozenset[str]:
        """Tokens of a block are known together, given ones too, so that blocks are not one shot."""
        return frozenset({ONE_SHOT}) if self.block_size is None else frozenset()

    @property
    def demands(self) -> frozenset[str]:
        return frozenset({JOINT} if self.block_size is not None else ())

    def num_targets(self, length: int) -> int:
        return length

    def sample(self, batch: TokenBatch, *, generator: Draws) -> Plan:
        level = self._levels(batch, generator=generator)
        hidden, weight = self._hide(level)
        eligible = ~batch.fixed & ~batch.padding
        target = eligible & (generator.rand(batch.length) < hidden)
        time = target.long() if self.block_size is None else self._block(batch) + 1
        if self.weight == "one":
            return Plan.of(time, target)
        return Plan(
            time=time,
            target=target,
            weight=torch.where(target, weight, 0.0),
            count=eligible.sum(dim=1).float(),
        )

    def _levels(self, batch: TokenBatch, *, generator: Draws) -> Float[Tensor, "B L"]:
        """The noise level at every token."""
        blocks = 1 if self.block_size is None else -(-batch.length // self.block_size)
        if self.antithetic:
            even = generator.spread()[:, None]  # [B, 1]
            drawn = (even + torch.arange(blocks, device=even.device) / blocks) % 1.0
        else:
            drawn = generator.rand(blocks)
        level = self.min_level + (1.0 - self.min_level) * drawn  # [B, blocks]
        if self.block_size is None:
            return level.expand(-1, batch.length)
        return level.gather(1, self._block(batch))

    def _block(self, batch: TokenBatch) -> Int[Tensor, "B L"]:
        assert self.block_size is not None
        return (torch.arange(batch.length, device=batch.ids.device) // self.block_size).expand_as(batch.ids)

    def _hide(self, level: Float[Tensor, "B L"]) -> tuple[Float[Tensor, "B L"], Float[Tensor, "B L"]]:
        """How likely a token is hidden, and what its loss then weighs: the rate of hiding over the chance of it."""
        if self.schedule == "linear":
            return level, 1.0 / level
        angle = level * (math.pi / 2)
        hidden = 2.0 * torch.sin(angle / 2) ** 2  # 1 - cos, exact for small angles
        return hidden, (math.pi / 2) * angle.sin() / hidden
