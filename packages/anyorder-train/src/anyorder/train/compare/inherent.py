"""What differs between recipes because their objectives differ: noted in a comparison, and no reason to refuse it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from .budget import Budget

__all__ = ["MARK", "inherent_notes", "label"]

MARK = "†"


def inherent_notes(budgets: Mapping[str, Budget]) -> dict[str, list[str]]:
    """Sentences on each recipe that is unlike the most common one in parameters beside the backbone, or in its rows.

    Returns:
        notes by recipe; recipes like most are not in it.
    """
    notes: dict[str, list[str]] = {}
    for value, say in (
        (lambda budget: sum(budget.further.values()), _parameters),
        (lambda budget: tuple(budget.layout.items()), _layout),
        (lambda budget: (budget.rows, budget.length, budget.stride), _shape),
    ):
        usual, whose = _usual(budgets, value)
        for name, budget in budgets.items():
            if value(budget) != value(usual):
                notes.setdefault(name, []).append(say(budget, usual, whose))
    return {name: notes[name] for name in budgets if name in notes}


def label(recipe: str, notes: Mapping[str, object]) -> str:
    """A recipe's name for a table, with a mark if there is a note on it."""
    return f"{recipe}{MARK}" if recipe in notes else recipe


def _usual(budgets: Mapping[str, Budget], value: Callable[[Budget], Hashable]) -> tuple[Budget, str]:
    """The first budget of the most common value, and whose it is."""
    owners: dict[Hashable, list[str]] = {}
    for name, budget in budgets.items():
        owners.setdefault(value(budget), []).append(name)
    most = max(owners.values(), key=len)
    return budgets[most[0]], most[0] if len(most) == 1 else "the others"


def _parameters(budget: Budget, usual: Budget, whose: str) -> str:
    owner = f"{whose}'" if whose.endswith("s") else f"{whose}'s"
    parts = []
    for part in dict.fromkeys([*budget.further, *usual.further]):
        own, other = budget.further.get(part, 0), usual.further.get(part, 0)
        if own != other:
            parts.append(f"no {part}" if not own else f"its {part}")
    ratio, more = budget.parameters / usual.parameters, budget.parameters - usual.parameters
    how = f"{ratio:.3g} times" if abs(ratio - 1) >= 0.005 else f"{abs(more):,} {'more' if more > 0 else 'fewer'} than"
    return f"{budget.parameters:,} parameters, {how} {owner}: {' and '.join(parts)}"


def _layout(budget: Budget, usual: Budget, whose: str) -> str:
    said = [
        _SAID.get((name, value), f"{name} {value}")
        for name, value in budget.layout.items()
        if value != usual.layout.get(name)
    ]
    return " and ".join(said) or f"rows laid out otherwise than {whose}"


_SAID: Mapping[tuple[str, Any], str] = {
    ("layout", "pairs"): "rows laid out as pairs",
    ("layout", "plain"): "rows laid out as plain text",
    ("bidirectional", True): "half of the rows read from right to left",
    ("bidirectional", False): "all rows read from left to right",
    ("isolate_documents", True): "no document sees another",
    ("isolate_documents", False): "documents in a row see each other",
}


def _shape(budget: Budget, usual: Budget, whose: str) -> str:
    return (
        f"{budget.rows} rows of {budget.length} tokens a step, {budget.stride} of them new, where {whose} "
        f"{'have' if whose == 'the others' else 'has'} {usual.rows} of {usual.length}, {usual.stride} new: as much "
        "text, cut in other places"
    )
