"""Spans of neighbouring tokens or words as targets, each within its context."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from anyorder.core import Draws, TokenBatch

from .checks import require_at_least, require_one_of
from .goals import most_targets, row_goals, take_first
from .units import Unit, Units

Distribution = Literal["inverse", "uniform"]
Placement = Literal["inside", "beside"]


@dataclass(frozen=True, kw_only=True)
class NgramSpans:
    """Predict spans of 1 to max_n words or tokens, each somewhere in its n*k words or tokens of context.

    A row is cut into windows, one a span, from a random point on and round its end, so that no place is
    favoured over another. Spans are taken in that order until the goal, ``round(n / k)`` of a row's ``n``
    tokens, is met exactly: the last one is cut short, and where spans do not suffice single tokens drawn
    uniformly make up the rest. A span ends early at a fixed token and at the end of a document.

    Source: XLNet section 2.4 and ``data_utils.py`` ``_sample_mask`` (there unit 'tokens' and placement
    'beside', with windows from the left end of the row).

    Args:
        k: one token in ``k`` is a target. 1 or more.
        max_n: length of the longest span, in units. 1 or more.
        unit: what spans are made of: 'words' (the data must know word borders) or 'tokens'.
        distribution: of the length n: 'inverse' (p proportional to 1/n, as released) or 'uniform'.
        placement: the span lies 'inside' its n*k units of context (the paper's text: one unit in k), or
            'beside' them (as released: one in k + 1 lies in a span, and single tokens fill up).

    Raises:
        RecipeError: a value out of range.
    """

    k: float = 6
    max_n: int = 5
    unit: Unit = "words"
    distribution: Distribution = "inverse"
    placement: Placement = "inside"

    def __post_init__(self) -> None:
        require_at_least("k", self.k, 1)
        require_at_least("max_n", self.max_n, 1)
        require_one_of("unit", self.unit, Unit)
        require_one_of("distribution", self.distribution, Distribution)
        require_one_of("placement", self.placement, Placement)

    def num_targets(self, length: int) -> int:
        return most_targets(length, k=self.k)

    def choose(self, batch: TokenBatch, order: Int[Tensor, "B L"], *, generator: Draws) -> Bool[Tensor, "B L"]:
        units = Units.of(batch, self.unit)
        eligible = ~batch.fixed & ~batch.padding
        turn = generator.randint(units.count, 1)  # [B, 1]: the unit at which the windows begin
        place = units.number - turn
        place = torch.where(place < 0, place + units.count, place)  # [B, L]: unit counted from there
        in_span = self._spans(batch, units, place, turn, generator=generator)
        # Span tokens come first, in the order of their windows; then the others, in random order.
        index = torch.arange(batch.length, device=place.device)
        in_order = place * batch.length + index  # under 2**61
        at_random = (generator.bits(batch.length) >> 2) + (1 << 62)
        score = torch.where(in_span, in_order, at_random)
        most = self.num_targets(batch.length)
        return take_first(score, eligible, row_goals(batch, k=self.k), most=most)

    def _spans(
        self,
        batch: TokenBatch,
        units: Units,
        place: Int[Tensor, "B L"],
        turn: Int[Tensor, "B 1"],
        *,
        generator: Draws,
    ) -> Bool[Tensor, "B L"]:
        """Whether each token lies in a span, before any goal."""
        table, odds = _windows(self.k, self.max_n, self.distribution, self.placement)
        count = batch.length // int(table[2].min()) + 1  # enough windows for the whole row
        length, offset, width = table.to(place.device)[:, generator.categorical(odds, count)].unbind()  # [B, S] each
        stop = width.cumsum(dim=1)
        begin = stop - width + offset

        own = torch.searchsorted(stop, place, right=True)  # [B, L]: the window of each token
        begin = begin.gather(1, own)
        in_span = (begin <= place) & (place < begin + length.gather(1, own))
        # A span belongs to the run of its first unit. Padding has no unit and writes beyond the row.
        column = torch.where(batch.padding, batch.length, units.number)
        run_of_unit = torch.zeros_like(pad(units.run, (0, 1))).scatter(1, column, units.run)
        first = (begin + turn) % units.count
        run_of_span = run_of_unit.gather(1, first)
        # A span that goes round the row's end goes on only where the run does: up to the end, and from the start.
        unbroken = (units.number >= first) | (run_of_unit.gather(1, units.count - 1) == run_of_span)
        return in_span & (run_of_span == units.run) & unbroken


@lru_cache
def _windows(
    k: float, max_n: int, distribution: Distribution, placement: Placement
) -> tuple[Int[Tensor, "3 W"], Float[Tensor, " W"]]:
    """Every window that can be drawn: length of its span, place of the span in it and its width; and their odds."""
    windows: list[tuple[int, int, int, float]] = []
    for n in range(1, max_n + 1):
        context = max(1, round(n * k))
        width, places = (context, context - n + 1) if placement == "inside" else (context + n, context)
        weight = 1 / n if distribution == "inverse" else 1.0
        windows += [(n, offset, width, weight / places) for offset in range(places)]
    table = torch.tensor([window[:3] for window in windows]).T
    return table, torch.tensor([weight for *_, weight in windows], dtype=torch.float64)
