"""Any-order likelihood: the second half of a window after its first, in random orders."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from anyorder.core import CONSECUTIVE, ONE_SHOT, PERMUTATION, Draws, Plan, TokenBatch

from ..objective import Objective
from .halves import second_half
from .hiding import measure_hidden
from .plans import in_order, one_pass_each
from .way import Way, standing_of
from .yardstick import Measurement, Score, Standing, spread_of

__all__ = ["AnyOrder"]

_OTHERWISE = {CONSECUTIVE: "left to right is its only order; its likelihood is the yardstick left_to_right"}


@dataclass(frozen=True, kw_only=True)
class AnyOrder:
    """``E_sigma -log p_sigma(second half | first half)``, the mean over sampled orders of the chain rule.

    A model of one joint distribution would give every order the same number. By Jensen's inequality the mean is no
    less than ``-log`` of the mean over orders of ``p_sigma``, so it bounds that mixture too. The tokens are those of
    ``left_to_right``, so that the two numbers can be set side by side.

    Args:
        orders: sampled for each window.
    """

    orders: int = 2

    name = "any_order"
    title = "Any order"
    says = "the second half of a window after the first, in random orders: the mean over orders, and their spread"
    kinds = (
        "exact, order by order, for permutation models (one pass) and for models that predict hidden tokens at once "
        "(one pass a token); the mean is over sampled orders, and a bound for the mixture of all orders; undefined for "
        "a left-to-right model, which has one order"
    )

    def defined_for(self, objective: Objective) -> Standing:
        standing = standing_of(objective, self._ways(0, seed=0), otherwise=_OTHERWISE)
        if not standing.defined:
            return standing
        return replace(standing, reason="; ".join(filter(None, [f"mean of {self.orders} orders", standing.reason])))

    def measure(
        self, objective: Objective, windows: TokenBatch, *, piece_bytes: Int[Tensor, " V"], seed: int = 0
    ) -> Measurement:
        """Parts are the sampled orders, ``"order 1"`` and so on; ``"all"`` is their mean, window by window."""
        began = time.perf_counter()
        standing = self.defined_for(objective)
        scores: dict[str, Score] = {}
        for number in range(self.orders):
            found = measure_hidden(
                objective,
                windows,
                {"all": second_half(windows)[:, None]},
                yardstick=self.name,
                standing=standing,
                ways=self._ways(number, seed=seed),
                piece_bytes=torch.as_tensor(piece_bytes),
                seed=seed,
            )
            if found.headline is None:
                return found
            scores[f"order {number + 1}"] = found.headline
        orders = list(scores.values())
        nats = torch.tensor([score.nats for score in orders], dtype=torch.float64).mean(dim=0)
        mean = replace(orders[0], nats=tuple(nats.tolist()))
        return Measurement(
            yardstick=self.name,
            standing=standing,
            scores={"all": mean, **scores},
            spread=spread_of(orders),
            seconds=time.perf_counter() - began,
        )

    def _ways(self, number: int, *, seed: int) -> tuple[Way, ...]:
        """The ways to ask in the ``number``-th order of every window."""

        def order(batch: TokenBatch) -> Int[Tensor, "B L"]:
            return Draws(seed, number, rows=batch.rows, purpose="yardstick order").permutation(batch.length)

        def chain(batch: TokenBatch, hidden: Bool[Tensor, "B L"], context: Draws | None) -> list[Plan]:
            return in_order(batch, hidden, order(batch), context=context)

        def stepwise(batch: TokenBatch, hidden: Bool[Tensor, "B L"], context: Draws | None) -> list[Plan]:
            return one_pass_each(batch, hidden, order=order(batch))

        return (
            Way(traits=frozenset({PERMUTATION}), sees="the first half and what came before in the order", plans=chain),
            Way(
                traits=frozenset({ONE_SHOT}),
                sees="the first half and what came before in the order, one pass a token",
                plans=stepwise,
            ),
        )
