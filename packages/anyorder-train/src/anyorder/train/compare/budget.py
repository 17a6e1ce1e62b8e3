"""What must be equal for a comparison to be one of objectives alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from anyorder.core import RecipeError

from ..assemble import count_parameters, sizes
from ..recipe import Recipe
from ..rows import TextRows
from ..tracking import flatten

__all__ = ["Budget", "UnequalBudgetsError", "budget_of", "other_differences", "require_equal", "unequal_rows"]


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What one recipe may spend, on what.

    Attributes:
        tokens: new tokens of the corpus that are read in all, ``steps`` times ``tokens_per_step``.
        parameters: of backbone and heads.
        rows, length, stride: of a batch; they decide, with the seed, which tokens come in which order.
        layout: how rows are laid out: directions, documents, pairs.
        corpus: fingerprint of text and tokenizer.
    """

    tokens: int
    steps: int
    tokens_per_step: int
    parameters: int
    rows: int
    length: int
    stride: int
    layout: str
    corpus: str

    def to_json(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


_MEANING = {
    "tokens": "tokens in all",
    "steps": "steps",
    "tokens_per_step": "tokens a step",
    "parameters": "parameters",
    "rows": "rows a batch",
    "length": "segment length",
    "stride": "tokens from one segment to the next",
    "layout": "layout of rows",
    "corpus": "corpus and tokenizer",
}


class UnequalBudgetsError(RecipeError):
    """Recipes that differ in more than their objective. ``table`` shows in what, for people."""

    def __init__(self, problem: str, *, table: str) -> None:
        super().__init__(problem)
        self.table = table


def budget_of(recipe: Recipe, data: TextRows) -> Budget:
    """The budget of a recipe, with nothing trained."""
    size, steps = sizes(recipe), recipe.sections["train"].get("steps")
    shape = recipe.sections["data"]
    layout = {name: shape.get(name) for name in ("layout", "bidirectional", "isolate_documents")}
    return Budget(
        tokens=steps * size.tokens_per_step,
        steps=steps,
        tokens_per_step=size.tokens_per_step,
        parameters=count_parameters(recipe),
        rows=size.rows,
        length=size.length,
        stride=size.stride,
        layout=", ".join(f"{name} {value}" for name, value in layout.items()),
        corpus=data.corpus.manifest.fingerprint[:16],
    )


def unequal_rows(budgets: Mapping[str, Budget]) -> list[tuple[str, list[str]]]:
    """What differs: its meaning, and its value in every recipe."""
    rows = []
    for name, meaning in _MEANING.items():
        values = [getattr(budget, name) for budget in budgets.values()]
        if any(value != values[0] for value in values):
            rows.append((meaning, [f"{value:,}" if isinstance(value, int) else value for value in values]))
    return rows


def require_equal(budgets: Mapping[str, Budget]) -> None:
    """Raise ``UnequalBudgetsError`` unless all read the same tokens in the same order with as many parameters."""
    rows = unequal_rows(budgets)
    if not rows:
        return
    names = list(budgets)
    meaning, values = rows[0]
    alike: dict[str, list[str]] = {}
    for name, value in zip(names, values, strict=True):
        alike.setdefault(value, []).append(name)
    shown = "; ".join(f"{value} in {', '.join(found)}" for value, found in alike.items())
    more = f", and {len(rows) - 1} more" if len(rows) > 1 else ""
    raise UnequalBudgetsError(
        f"the recipes differ in more than their objective: {meaning} ({shown}){more}; make them equal, or say "
        "--unequal to compare them nevertheless",
        table=_text_table(["", *names], [[meaning, *values] for meaning, values in rows]),
    )


def other_differences(recipes: Sequence[Recipe]) -> list[tuple[str, list[str]]]:
    """Settings outside the objective and the budget that differ, such as a learning rate or a memory."""
    flat = [flatten({k: v for k, v in recipe.tree.items() if k not in ("name", "seed")}) for recipe in recipes]
    keys = dict.fromkeys(key for tree in flat for key in tree)
    skipped = ("objective.", "tracking.")
    rows = [(key, [tree.get(key, "–") for tree in flat]) for key in keys if not key.startswith(skipped)]
    return [(key, values) for key, values in rows if any(value != values[0] for value in values)]


def _text_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
