"""Numbers of a comparison: means over seeds, and differences in pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from ..yardsticks import ALL_YARDSTICKS, Measurement, Score, Standing
from ..yardsticks.yardstick import ratio_error
from .cell import CellResult
from .statistics import Estimate, estimate, t_quantile

__all__ = ["Difference", "Results"]

Unit = Literal["bits_per_token", "bits_per_byte"]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """``left`` minus ``right`` on one yardstick, in bits per token: below zero, ``left`` is the better one.

    Attributes:
        basis: ``seeds``: the interval is over seeds in pairs, so it has the noise of training in it. ``windows``: there
            is one seed, and the interval is over held-out windows in pairs: the noise of measuring these two models.
    """

    yardstick: str
    left: str
    right: str
    basis: Literal["seeds", "windows"]
    estimate: Estimate

    @property
    def clear(self) -> bool:
        """Whether the 95 % interval excludes zero."""
        return self.estimate.excludes_zero


class Results:
    """Finished cells, asked for numbers.

    Args:
        cells: of one comparison.
        recipes: names in the order to show them; those without a finished cell are left out.
    """

    def __init__(self, cells: Iterable[CellResult], *, recipes: Sequence[str]) -> None:
        self._cells = {(cell.recipe, cell.seed): cell for cell in cells}
        self.recipes = tuple(name for name in recipes if any(recipe == name for recipe, _ in self._cells))

    @property
    def cells(self) -> list[CellResult]:
        return list(self._cells.values())

    @property
    def seeds(self) -> list[int]:
        return sorted({seed for _, seed in self._cells})

    @property
    def yardsticks(self) -> list[str]:
        """Names, in the order of the suite; those that are new to it come last."""
        known = [yardstick.name for yardstick in ALL_YARDSTICKS]
        found = dict.fromkeys(name for cell in self.cells for name in cell.measurements)
        return sorted(found, key=lambda name: known.index(name) if name in known else len(known))

    def of(self, recipe: str) -> list[CellResult]:
        """A recipe's cells by seed."""
        return [self._cells[recipe, seed] for seed in self.seeds if (recipe, seed) in self._cells]

    def standing(self, recipe: str, yardstick: str) -> Standing:
        return self._measurement(self.of(recipe)[0], yardstick).standing

    def parts(self, yardstick: str) -> list[str]:
        """Parts of a yardstick besides the headline, such as span lengths."""
        found = dict.fromkeys(
            part for cell in self.cells for part in self._measurement(cell, yardstick).scores if part != "all"
        )
        return list(found)

    def score(
        self, recipe: str, yardstick: str, *, part: str = "all", unit: Unit = "bits_per_token"
    ) -> Estimate | None:
        """Mean over seeds with its t interval; None where the yardstick is undefined for the model.

        In a comparison of one seed the interval is over windows (for bits per token).
        """
        scores = [score for cell in self.of(recipe) if (score := self._score(cell, yardstick, part))]
        if not scores:
            return None
        if len(self.seeds) > 1 or unit == "bits_per_byte":
            return estimate([getattr(score, unit) for score in scores])
        (only,) = scores
        half = _quantile(only.tokens) * only.standard_error
        mean = only.bits_per_token
        if math.isnan(half):
            return Estimate(mean=mean)
        return Estimate(mean=mean, low=mean - half, high=mean + half)

    def spread(self, recipe: str, yardstick: str) -> Estimate | None:
        """How much a window's score varies with the sampled order, in bits per token; None where none is sampled."""
        return self.over_seeds(recipe, lambda cell: self._measurement(cell, yardstick).spread)

    def values(self, recipe: str, yardstick: str, *, part: str = "all") -> list[float]:
        """Bits per token of each seed."""
        scores = [self._score(cell, yardstick, part) for cell in self.of(recipe)]
        return [score.bits_per_token for score in scores if score is not None]

    def difference(self, left: str, right: str, yardstick: str, *, part: str = "all") -> Difference | None:
        """The paired difference, over the seeds that both have; None where either is undefined."""
        pairs = []
        for seed in self.seeds:
            if (left, seed) in self._cells and (right, seed) in self._cells:
                first = self._score(self._cells[left, seed], yardstick, part)
                second = self._score(self._cells[right, seed], yardstick, part)
                if first is not None and second is not None:
                    assert first.tokens == second.tokens, "both are scored on the same hidden tokens"
                    pairs.append((first, second))
        if not pairs:
            return None
        if len(pairs) > 1:
            found = estimate([first.bits_per_token - second.bits_per_token for first, second in pairs])
            basis: Literal["seeds", "windows"] = "seeds"
        else:
            found, basis = _difference_by_windows(*pairs[0]), "windows"
        return Difference(yardstick=yardstick, left=left, right=right, basis=basis, estimate=found)

    def differences(self, yardstick: str) -> list[Difference]:
        """Every pair of recipes for which the yardstick is defined."""
        found = [self.difference(left, right, yardstick) for left, right in combinations(self.recipes, 2)]
        return [difference for difference in found if difference is not None]

    def ranking(self, yardstick: str) -> list[str]:
        """Recipes for which it is defined, the best first."""
        means = {name: score.mean for name in self.recipes if (score := self.score(name, yardstick)) is not None}
        return sorted(means, key=means.__getitem__)

    def over_seeds(self, recipe: str, value: Callable[[CellResult], float | None]) -> Estimate | None:
        """Mean of a number of each cell, such as its speed; None where no cell has it."""
        values = [number for cell in self.of(recipe) if (number := value(cell)) is not None]
        return estimate(values) if values else None

    def speed(self, recipe: str, *, of: Literal["tokens", "targets"] = "tokens") -> float:
        """Tokens or predictions of all seeds by the seconds of all, so that a slow run counts for its whole length."""
        cells = [cell for cell in self.of(recipe) if cell.seconds > 0]
        return sum(getattr(cell, of) for cell in cells) / sum(cell.seconds for cell in cells) if cells else 0.0

    def surely_faster(self, left: str, right: str) -> bool:
        """Whether the ratio of speeds, seed by seed, is above 1 with its whole 95 % interval."""
        seeds = [seed for seed in self.seeds if (left, seed) in self._cells and (right, seed) in self._cells]
        pairs = [
            (self._cells[left, seed].tokens_per_second, self._cells[right, seed].tokens_per_second) for seed in seeds
        ]
        ratios = [math.log(first / second) for first, second in pairs if first > 0 and second > 0]
        if len(ratios) < 2:
            return False
        low = estimate(ratios).low
        return low is not None and low > 0

    @staticmethod
    def _measurement(cell: CellResult, yardstick: str) -> Measurement:
        missing = Standing(kind="undefined", reason="it was not measured")
        return cell.measurements.get(yardstick) or Measurement(yardstick=yardstick, standing=missing, scores={})

    def _score(self, cell: CellResult, yardstick: str, part: str) -> Score | None:
        found = self._measurement(cell, yardstick).scores.get(part)
        return found if found is not None and any(found.tokens) else None  # windows may be too short for a span


def _difference_by_windows(left: Score, right: Score) -> Estimate:
    """The difference of two models on the same windows, with the interval of a ratio of means."""
    nats = tuple(a - b for a, b in zip(left.nats, right.nats, strict=True))
    mean = left.bits_per_token - right.bits_per_token
    half = _quantile(left.tokens) * ratio_error(nats, left.tokens) / math.log(2)
    if math.isnan(half):
        return Estimate(mean=mean)
    return Estimate(mean=mean, low=mean - half, high=mean + half)


def _quantile(tokens: Sequence[int]) -> float:
    windows = sum(count > 0 for count in tokens)
    return t_quantile(0.975, windows - 1) if windows > 1 else math.nan
