"""The bound of masked diffusion: the second half of a window after its first, at random noise levels."""

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
from .plans import at_noise_level
from .way import Way, standing_of
from .yardstick import Measurement, Score, Standing, spread_of

__all__ = ["DiffusionBound"]

_OTHERWISE = {
    CONSECUTIVE: "it cannot predict hidden tokens from what stands to the right of them; its likelihood is the "
    "yardstick left_to_right"
}


@dataclass(frozen=True, kw_only=True)
class DiffusionBound:
    """``E_n (D / n) sum_{i in M} -log p(x_i | all but M)`` over sets ``M`` of ``n`` of the ``D`` tokens.

    The negative evidence bound of absorbing diffusion, whatever its schedule of noise (OA-ARDM, equation 5; MDLM,
    equation 10), so at least ``-log p(second half | first half)`` of generation in that way. Its expectation is
    exactly ``any_order`` one pass a token; it needs far fewer passes for a noisier number.

    Args:
        draws: sets drawn for each window. Their sizes are spread evenly over ``1`` to ``D``.
    """

    draws: int = 16

    name = "diffusion_bound"
    title = "Diffusion bound"
    says = (
        "the second half of a window after the first, as masked diffusion bounds it: hidden in part, predicted at once"
    )
    kinds = (
        "a bound for models that predict hidden tokens at once and for permutation models, estimated without bias from "
        "sampled noise levels; undefined for a left-to-right model"
    )

    def defined_for(self, objective: Objective) -> Standing:
        standing = standing_of(objective, (self._way(0, seed=0),), otherwise=_OTHERWISE)
        if not standing.defined:
            return standing
        why = f"an upper bound, estimated from {self.draws} noise levels"
        return replace(standing, kind="bound", reason="; ".join(filter(None, [why, standing.reason])))

    def measure(
        self, objective: Objective, windows: TokenBatch, *, piece_bytes: Int[Tensor, " V"], seed: int = 0
    ) -> Measurement:
        began = time.perf_counter()
        standing = self.defined_for(objective)
        found: list[Score] = []
        for number in range(self.draws):
            one = measure_hidden(
                objective,
                windows,
                {"all": second_half(windows)[:, None]},
                yardstick=self.name,
                standing=standing,
                ways=(self._way(number, seed=seed),),
                piece_bytes=torch.as_tensor(piece_bytes),
                seed=seed,
            )
            if one.headline is None:
                return one
            found.append(one.headline)
        nats = torch.tensor([score.nats for score in found], dtype=torch.float64).mean(dim=0)
        return Measurement(
            yardstick=self.name,
            standing=standing,
            scores={"all": replace(found[0], nats=tuple(nats.tolist()))},
            spread=spread_of(found),
            seconds=time.perf_counter() - began,
        )

    def _way(self, number: int, *, seed: int) -> Way:
        def plans(batch: TokenBatch, hidden: Bool[Tensor, "B L"], context: Draws | None) -> list[Plan]:
            level = (number + Draws(seed, rows=batch.rows, purpose="noise level").rand(1)) / self.draws  # [B, 1]
            order = Draws(seed, number, rows=batch.rows, purpose="noise").permutation(batch.length)
            return [at_noise_level(batch, hidden, order, level=level, context=context)]

        return Way(
            traits=frozenset({ONE_SHOT, PERMUTATION}),
            sees="the first half and a random part of the second, which knows itself whole",
            plans=plans,
        )
