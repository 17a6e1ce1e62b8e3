"""What the numbers say, in sentences, and what they do not."""

from __future__ import annotations

from dataclasses import dataclass

from ..yardsticks import ALL_YARDSTICKS
from .results import Difference, Results

__all__ = ["MANY", "Verdict", "about_seeds", "title_of", "verdict"]


MANY = 6
"""With more models than this, tables have a row a model and sentences are of the best few."""

_TOLD = 3


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One yardstick's outcome.

    Attributes:
        winner: the recipe that is better than every other beyond noise, or None.
        headline: a few words: who wins.
        details: sentences with the numbers.
    """

    yardstick: str
    winner: str | None
    headline: str
    details: tuple[str, ...]


def title_of(yardstick: str) -> str:
    """The yardstick's name for people."""
    return next((known.title for known in ALL_YARDSTICKS if known.name == yardstick), yardstick)


def verdict(results: Results, yardstick: str) -> Verdict:
    """Who wins on a yardstick, by how much, and whether the difference is larger than noise."""
    ranking = results.ranking(yardstick)
    details = []
    if len(ranking) < 2:
        headline = f"only {ranking[0]} defines it" if ranking else "no model defines it"
        winner = None
    else:
        best, *others = ranking
        pairs = [_require(results.difference(best, other, yardstick)) for other in others]
        level = [pair.right for pair in pairs if not pair.clear]
        winner = None if level else best
        ahead = "wins" if pairs[0].basis == "seeds" else "is ahead, on one seed"
        headline = f"{best} {ahead}" if winner else f"{_list([best, *level])} lie within noise of each other"
        best_score = results.score(best, yardstick)
        assert best_score is not None
        details.append(f"{best} needs {best_score.mean:.3f} bits a token.")
        told = pairs if len(results.recipes) <= MANY else pairs[:_TOLD]
        details += [_sentence(results, pair) for pair in told]
        if rest := [abs(pair.estimate.mean) for pair in pairs[len(told) :]]:
            need = f"{min(rest):.3f} to {max(rest):.3f} more" if len(rest) > 1 else f"{rest[0]:.3f} more"
            details.append(f"The other {len(rest)} need {need}." if len(rest) > 1 else f"The last needs {need}.")
    undefined: dict[str, list[str]] = {}
    for name in results.recipes:
        standing = results.standing(name, yardstick)
        if not standing.defined:
            undefined.setdefault(standing.reason, []).append(name)
    details += [f"Undefined for {_list(names)}: {reason}." for reason, names in undefined.items()]
    return Verdict(yardstick=yardstick, winner=winner, headline=headline, details=tuple(details))


def _sentence(results: Results, pair: Difference) -> str:
    best, other, found = pair.left, pair.right, pair.estimate
    gap = f"{abs(found.mean):.3f} bits a token"
    where = f"over {found.count} seeds in pairs" if pair.basis == "seeds" else "over windows, one seed"
    if found.low is None or found.high is None:
        text = f"{other} needs {gap} more; there is nothing to tell its noise by"
    else:
        interval = f"95 % interval {-found.high:+.3f} to {-found.low:+.3f} {where}"
        text = f"{other} needs {gap} more ({interval})"
        text += "" if pair.clear else ", which is within noise"
    other_sees, best_sees = (results.standing(name, pair.yardstick).sees for name in (other, best))
    if other_sees != best_sees:
        text += f"; it sees {other_sees}, where {best} sees {best_sees}"
    return text + "."


def about_seeds(results: Results) -> str:
    """What the number of seeds allows one to say."""
    count = len(results.seeds)
    if count == 1:
        return (
            "One seed proves nothing about the objectives. The intervals below are over held-out windows: they say how "
            "well these very models were measured, not how another seed would have come out. Run with more seeds "
            "(--seeds 5) before believing a difference."
        )
    caution = " With so few, intervals are wide and tell only large effects." if count < 5 else ""
    return (
        f"{count} seeds: intervals are Student's t over seeds, and differences are taken in pairs of equal seed (same "
        f"initial weights, same text in the same order).{caution} Each interval stands alone: of twenty true nulls, "
        "one is expected to look clear."
    )


def _require(found: Difference | None) -> Difference:
    assert found is not None, "both are in the ranking"
    return found


def _list(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
