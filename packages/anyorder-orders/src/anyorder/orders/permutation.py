"""XLNet's factorisation orders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from anyorder.core import PERMUTATION, Draws, Plan, RecipeError, TokenBatch

from .checks import require_at_least, require_one_of
from .choice import TargetChoice
from .last_fraction import LastFraction

Context = Literal["unordered", "ordered"]


@dataclass(frozen=True, kw_only=True)
class Permutation:
    """Predict targets in a random order, each from the context and the targets before it (XLNet).

    Targets are chosen anew at each draw. Where the batch has visible blocks (reuse halves), each has an order
    of its own.

    Args:
        targets: which tokens are predicted; None for ``LastFraction()``.
        perm_size: cut the row into blocks of this many tokens that are ordered left to right. One permutation is
            drawn for each visible block of the row and repeated inside all such blocks in it (``data_utils.py``
            ``_local_perm``, which is called once a half). It must divide the length of the row. None for one
            permutation of the whole row. The last part of an order of blocks would always be the row's end, so
            ``LastFraction`` then cuts a whole-row order of its own.
        context: 'unordered': tokens that are neither targets nor fixed are given and see each other, while
            fixed tokens (SEP, CLS) take ranks in the order, so that given tokens never see them, as released.
            'ordered': every token has a rank, targets last (the paper's equation 5).

    Raises:
        RecipeError: a value out of range.
    """

    targets: TargetChoice | None = None
    perm_size: int | None = None
    context: Context = "unordered"

    def __post_init__(self) -> None:
        if self.perm_size is not None:
            require_at_least("perm_size", self.perm_size, 1)
        require_one_of("context", self.context, Context)

    @property
    def traits(self) -> frozenset[str]:
        return frozenset({PERMUTATION})

    @property
    def choice(self) -> TargetChoice:
        """What chooses the targets."""
        return LastFraction() if self.targets is None else self.targets

    def check(self, length: int) -> None:
        """Raise ``RecipeError`` where ``perm_size`` does not divide the length of a row."""
        if self.perm_size is not None and length % self.perm_size:
            allowed = ", ".join(str(size) for size in range(1, length + 1) if length % size == 0)
            raise RecipeError(
                f"perm_size {self.perm_size} does not divide the row length {length}; "
                f"allowed: {allowed}, or null for one permutation of the row",
                path="perm_size",
            )

    def num_targets(self, length: int) -> int:
        return self.choice.num_targets(length)

    def sample(self, batch: TokenBatch, *, generator: Draws) -> Plan:
        self.check(batch.length)
        order = generator.bits(batch.length)  # distinct within a row, as an order must be
        target = self.choice.choose(batch, order, generator=generator)
        rank = order
        if self.perm_size is not None:
            rank = self._block_ranks(batch, generator=generator)
        return plan_from_ranks(batch, rank, target, context=self.context, perm_size=self.perm_size)

    def _block_ranks(self, batch: TokenBatch, *, generator: Draws) -> Int[Tensor, "B L"]:
        assert self.perm_size is not None
        if batch.block is None:
            return repeated_ranks(generator.permutation(self.perm_size), length=batch.length)
        blocks = int(batch.block.max()) + 1
        permutations = generator.bits(blocks, self.perm_size).argsort(dim=2)  # [B, block, S]
        ranks = [repeated_ranks(one, length=batch.length) for one in permutations.unbind(1)]
        return torch.stack(ranks, dim=2).gather(2, batch.block[:, :, None]).squeeze(2)


def repeated_ranks(permutation: Int[Tensor, "B S"], *, length: int) -> Int[Tensor, "B L"]:
    """Ranks of a row of blocks, left to right, with one permutation inside each (``_local_perm``)."""
    size = permutation.shape[1]
    first = torch.arange(0, length, size, device=permutation.device)
    return (first[:, None] + permutation[:, None, :]).flatten(1)


def plan_from_ranks(
    batch: TokenBatch,
    rank: Int[Tensor, "B L"],
    target: Bool[Tensor, "B L"],
    *,
    context: Context = "unordered",
    perm_size: int | None = None,
) -> Plan:
    """The plan of given ranks and targets; times of ranked tokens are 1, 2, ... without a gap.

    Args:
        batch: the tokens.
        rank: distinct numbers in each row, the greater the later.
        target: tokens to predict.
        context: as in ``Permutation``.
        perm_size: blocks inside which an ordered context comes before the targets; None for the whole row.
    """
    real = ~batch.padding
    if context == "unordered":
        return Plan.of(_count_up(rank, target | (batch.fixed & real)), target)
    index = torch.arange(batch.length, device=rank.device)
    group = 2 * (index // (perm_size or batch.length)) + target.long()  # [B, L]: context of a block, its targets
    return Plan.of(_count_up(group * batch.length + _count_up(rank, real) - 1, real), target)


def _count_up(rank: Int[Tensor, "B L"], counted: Bool[Tensor, "B L"]) -> Int[Tensor, "B L"]:
    """Number the counted tokens of each row 1, 2, ... by rank; the others get 0."""
    most = int(counted.sum(dim=1).max())  # few as a rule, and finding few is much faster than sorting the row
    last = torch.iinfo(rank.dtype).max
    first = torch.where(counted, rank, last).topk(most, dim=1, largest=False).indices  # [B, most]
    numbers = torch.arange(1, most + 1, device=rank.device).expand_as(first)
    return torch.zeros_like(rank).scatter(1, first, numbers) * counted
