"""One order or another, by chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from anyorder.core import Draws, OrderSampler, Plan, RecipeError, TokenBatch

from .checks import require_one_of

Per = Literal["row", "batch"]


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """Sample from one of several orders (UniLM's 1/3, 1/3, 1/6, 1/6 by batch; AO-GPT's 90 and 10 per cent by row).

    It offers the traits that all its parts have, so that a mask builder must suit every one of them.

    Args:
        parts: the orders.
        probabilities: of each part; they are divided by their sum.
        per: draw for each 'row', or once for the whole 'batch', over all ranks.

    Raises:
        RecipeError: no parts, another number of probabilities, or a probability that is not above 0.
    """

    parts: Sequence[OrderSampler]
    probabilities: Sequence[float]
    per: Per = "row"

    def __post_init__(self) -> None:
        if not self.parts:
            raise RecipeError("parts is empty; a mixture has at least one order", path="parts")
        if len(self.parts) != len(self.probabilities):
            raise RecipeError(
                f"probabilities are {len(self.probabilities)}, and there are {len(self.parts)} parts: one each",
                path="probabilities",
            )
        for value in self.probabilities:
            if not 0.0 < value < float("inf"):
                raise RecipeError(f"probabilities has {value}; each must be above 0", path="probabilities")
        require_one_of("per", self.per, Per)

    @property
    def traits(self) -> frozenset[str]:
        return frozenset.intersection(*(part.traits for part in self.parts))

    @property
    def demands(self) -> frozenset[str]:
        """All that any part demands."""
        return frozenset().union(*(getattr(part, "demands", ()) for part in self.parts))

    def check(self, length: int) -> None:
        """Raise ``RecipeError`` where a part refuses rows of this length."""
        for part in self.parts:
            if hasattr(part, "check"):
                part.check(length)

    def num_targets(self, length: int) -> int:
        return max(part.num_targets(length) for part in self.parts)

    def sample(self, batch: TokenBatch, *, generator: Draws) -> Plan:
        chosen = self._choose(generator)  # [B]
        plans = [part.sample(batch, generator=generator) for part in self.parts]
        first, *rest = plans
        time, target, weight, count = first.time, first.target, first.weight, _count(first)
        for number, plan in enumerate(rest, start=1):
            mine = (chosen == number)[:, None]
            time, target = torch.where(mine, plan.time, time), torch.where(mine, plan.target, target)
            weight = torch.where(mine, plan.weight, weight)
            count = torch.where(mine[:, 0], _count(plan), count)
        none = all(plan.count is None for plan in plans)
        return Plan(time=time, target=target, weight=weight, count=None if none else count)

    def _choose(self, generator: Draws) -> Int[Tensor, " B"]:
        if self.per == "row":
            return generator.categorical(self.probabilities)
        edges = torch.tensor(self.probabilities, dtype=torch.float64).cumsum(0) / sum(self.probabilities)
        one = int(torch.bucketize(generator.shared(), edges[:-1], right=True))
        return torch.full((generator.rows,), one, device=generator.device)


def _count(plan: Plan) -> Float[Tensor, " B"]:
    """What a row is divided by, said by the plan or meant by it."""
    return plan.weight.masked_fill(~plan.target, 0.0).sum(dim=1) if plan.count is None else plan.count
