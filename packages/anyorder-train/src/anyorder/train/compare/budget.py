"""What must be equal for a comparison to be one of objectives alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from anyorder.core import RecipeError

from ..assemble import parameters_by_part, sizes
from ..recipe import Recipe
from ..rows import TextRows
from ..tracking import flatten

__all__ = ["Budget", "UnequalBudgetsError", "budget_of", "other_differences", "require_equal", "unequal_rows"]


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What one recipe may spend, on what.

    The first seven must be equal. The others may belong to an objective, such as ELECTRA's generator or the pairs of
    next-sentence prediction: where they differ, that is noted (``inherent_notes``).

    Attributes:
        tokens: new tokens of the corpus that are read in all, ``steps`` times ``tokens_per_step``.
        backbone: parameters of the model that all objectives share.
        model: its sizes.
        corpus: fingerprint of text and tokenizer.
        source: kind of data: text, or records made from it.
        further: parameters outside the backbone, by part.
        rows, length, stride: of a batch; they decide, with the seed, which tokens come in which order.
        layout: how rows are laid out: directions, documents, pairs.
    """

    tokens: int
    steps: int
    tokens_per_step: int
    backbone: int
    model: str
    corpus: str
    source: str
    further: Mapping[str, int]
    rows: int
    length: int
    stride: int
    layout: Mapping[str, Any]

    @property
    def parameters(self) -> int:
        """Of backbone, heads and whatever else the objective learns."""
        return self.backbone + sum(self.further.values())

    def to_json(self) -> dict[str, Any]:
        tree = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**tree, "further": dict(self.further), "layout": dict(self.layout)}


_EQUAL = {
    "tokens": "tokens in all",
    "steps": "steps",
    "tokens_per_step": "tokens a step",
    "backbone": "parameters of the backbone",
    "model": "sizes of the backbone",
    "corpus": "corpus and tokenizer",
    "source": "kind of data",
}
_LAYOUT = ("layout", "bidirectional", "isolate_documents")
_SIZES = ("n_layer", "d_model", "n_head", "d_head", "d_inner")


class UnequalBudgetsError(RecipeError):
    """Recipes that differ in more than their objective. ``table`` shows in what, for people."""

    def __init__(self, problem: str, *, table: str) -> None:
        super().__init__(problem)
        self.table = table


def budget_of(recipe: Recipe, text: TextRows) -> Budget:
    """The budget of a recipe, with nothing trained."""
    size, steps = sizes(recipe), recipe.sections["train"].get("steps")
    data, model = recipe.sections["data"], recipe.sections["model"]
    parameters, tree = parameters_by_part(recipe), data.resolved()
    return Budget(
        tokens=steps * size.tokens_per_step,
        steps=steps,
        tokens_per_step=size.tokens_per_step,
        backbone=parameters.pop("backbone"),
        model=", ".join(f"{name} {value}" for name in _SIZES if (value := model.get(name)) is not None),
        corpus=text.corpus.manifest.fingerprint[:16],
        source=" ".join(str(value) for name in ("type", "path") if (value := tree.get(name)) is not None),
        further=parameters,
        rows=size.rows,
        length=size.length,
        stride=size.stride,
        layout={name: tree[name] for name in _LAYOUT if name in tree},
    )


def unequal_rows(budgets: Mapping[str, Budget]) -> list[tuple[str, list[str]]]:
    """What differs and must not: its meaning, and its value in every recipe."""
    rows = []
    for name, meaning in _EQUAL.items():
        values = [getattr(budget, name) for budget in budgets.values()]
        if any(value != values[0] for value in values):
            rows.append((meaning, [f"{value:,}" if isinstance(value, int) else value for value in values]))
    return rows


def require_equal(budgets: Mapping[str, Budget]) -> None:
    """Raise ``UnequalBudgetsError`` unless all train the same backbone on as many tokens of the same text."""
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
