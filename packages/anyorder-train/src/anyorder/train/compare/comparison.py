"""A comparison as a whole: what was compared, what was found, and what failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..recipe import Recipe
from .budget import Budget, other_differences, unequal_rows
from .cell import Questions
from .inherent import inherent_notes, label
from .results import Results
from .verdicts import MANY, title_of, verdict

__all__ = ["Comparison"]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Attributes:
    folder: where everything is.
    recipes: in the order given.
    budgets: by recipe.
    results: of the cells that finished.
    failures: why others did not, by their label.
    questions: what every model was asked.
    """

    folder: Path
    recipes: Sequence[Recipe]
    budgets: Mapping[str, Budget]
    results: Results
    failures: Mapping[str, str]
    questions: Questions

    @property
    def many(self) -> bool:
        """Too many models for a column each: tables then have a row for each."""
        return len(self.recipes) > MANY

    @property
    def unequal(self) -> list[tuple[str, list[str]]]:
        """What differs of what must be equal, with the value of every recipe."""
        return unequal_rows(self.budgets)

    @property
    def notes(self) -> dict[str, list[str]]:
        """How a recipe's budget is unlike that of most, because of its objective."""
        return inherent_notes(self.budgets)

    def label(self, recipe: str) -> str:
        """A recipe's name in tables: marked where there is a note on it."""
        return label(recipe, self.notes)

    @property
    def other_differences(self) -> list[tuple[str, list[str]]]:
        """Settings besides objective and budget that differ."""
        return other_differences(self.recipes)

    def __str__(self) -> str:
        """A few lines for a terminal: who wins, and where the report is."""
        results, lines = self.results, []
        if results.recipes:
            head = ["bits per token", *map(self.label, results.recipes)]
            rows = [
                [title_of(name), *(self.cell_text(recipe, name) for recipe in results.recipes)]
                for name in results.yardsticks
            ]
            headlines = [verdict(results, name).headline for name in results.yardsticks]
            if self.many:
                head, *rows = (list(column) for column in zip(head, *rows, strict=True))
            elif len(results.recipes) > 1:
                head, rows = [*head, ""], [[*row, text] for row, text in zip(rows, headlines, strict=True)]
            widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
            lines += [
                "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
                for row in [head, *rows]
            ]
            if self.many:
                lines += [f"{title_of(name)}: {text}" for name, text in zip(results.yardsticks, headlines, strict=True)]
            lines += [f"{self.label(name)} {'; '.join(told)}" for name, told in self.notes.items()]
            lines.append(f"report: {self.folder / 'report.html'}")
        lines += [f"failed: {why}" for why in self.failures.values()]
        return "\n".join(lines)

    def cell_text(self, recipe: str, yardstick: str) -> str:
        """A mean with half its interval, such as ``5.123 ± 0.045``; after ``≤`` where it is a bound."""
        found = self.results.score(recipe, yardstick)
        if found is None:
            return "–"
        bound = "≤ " if self.results.standing(recipe, yardstick).kind == "bound" else ""
        return f"{bound}{found.mean:.3f}" + ("" if found.half_width is None else f" ± {found.half_width:.3f}")

    def to_json(self) -> dict[str, Any]:
        """Everything that was found, without the scores of single windows, which the cells have."""
        results = self.results
        yardsticks: dict[str, Any] = {}
        for name in results.yardsticks:
            models = {}
            for recipe in results.recipes:
                standing = results.standing(recipe, name)
                parts = {
                    part: {
                        unit: _plain(results.score(recipe, name, part=part, unit=unit))
                        for unit in ("bits_per_token", "bits_per_byte")
                    }
                    for part in (["all", *results.parts(name)] if standing.defined else [])
                }
                models[recipe] = {
                    "kind": standing.kind,
                    "sees": standing.sees,
                    "reason": standing.reason,
                    "seeds": results.values(recipe, name),
                    "spread": _plain(results.spread(recipe, name)),
                    "scores": parts,
                }
            found = verdict(results, name)
            yardsticks[name] = {
                "models": models,
                "differences": [
                    {"left": d.left, "right": d.right, "basis": d.basis, "clear": d.clear, **_plain(d.estimate)}
                    for d in results.differences(name)
                ],
                "winner": found.winner,
                "verdict": [found.headline, *found.details],
            }
        return {
            "recipes": {recipe.name: dict(recipe.tree) for recipe in self.recipes},
            "budgets": {name: budget.to_json() for name, budget in self.budgets.items()},
            "equal_budgets": not self.unequal,
            "notes": self.notes,
            "seeds": results.seeds,
            "windows": self.questions.windows,
            "asked": self.questions.yardsticks,
            "yardsticks": yardsticks,
            "cells": [
                {
                    "recipe": cell.recipe,
                    "seed": cell.seed,
                    "tokens_per_second": cell.tokens_per_second,
                    "targets_per_second": cell.targets_per_second,
                    "peak_memory": cell.peak_memory,
                    "seconds": cell.seconds,
                    "device": cell.device,
                    "versions": dict(cell.versions),
                }
                for cell in results.cells
            ],
            "failures": dict(self.failures),
        }


def _plain(found: Any) -> dict[str, Any]:
    return {} if found is None else {"mean": found.mean, "low": found.low, "high": found.high, "count": found.count}
