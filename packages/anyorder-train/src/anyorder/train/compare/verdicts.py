"""What the numbers say, in sentences, and what they do not."""

from __future__ import annotations

from collections.abc import Sequence
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
    winner, details = None, []
    if not ranking:
        headline = "no model has such a number"
    elif len(results.recipes) == 1:
        headline = _alone(results, yardstick)
    elif len(ranking) == 1:
        headline = f"only {ranking[0]} has such a number"
    else:
        best, *others = ranking
        pairs = [_require(results.difference(best, other, yardstick)) for other in others]
        unsettled = [pair.right for pair in pairs if _only_a_bound(results, pair)]
        level = [pair.right for pair in pairs if not pair.clear and pair.right not in unsettled]
        winner = None if level or unsettled else best
        headline = _headline(results, pairs, level=level, unsettled=unsettled)
        details += [_numbers(results, pairs), *_seen(results, yardstick)]
    undefined: dict[str, list[str]] = {}
    for name in results.recipes:
        standing = results.standing(name, yardstick)
        if not standing.defined:
            undefined.setdefault(standing.reason, []).append(name)
    details += [f"Undefined for {_list(names)}: {reason}." for reason, names in undefined.items()]
    return Verdict(yardstick=yardstick, winner=winner, headline=headline, details=tuple(details))


def _alone(results: Results, yardstick: str) -> str:
    """The number itself, where there is no other model."""
    (name,) = results.recipes
    score = results.score(name, yardstick)
    assert score is not None, "it is in the ranking"
    most = "at most " if results.standing(name, yardstick).kind == "bound" else ""
    interval = ""
    if score.low is not None and score.high is not None:
        over = "seeds" if len(results.seeds) > 1 else "windows"
        interval = f" (95 % interval over {over} {score.low:.3f} to {score.high:.3f})"
    return f"{most}{score.mean:.3f} bits a token{interval}"


def _only_a_bound(results: Results, pair: Difference) -> bool:
    """Whether the worse number is a bound, so that the true one may be lower, and the better one is exact."""
    best, other = (results.standing(name, pair.yardstick).kind for name in (pair.left, pair.right))
    return other == "bound" and best != "bound"


def _headline(results: Results, pairs: Sequence[Difference], *, level: list[str], unsettled: list[str]) -> str:
    best = pairs[0].left
    bound = results.standing(best, pairs[0].yardstick).kind == "bound"
    if level:
        text = f"{_list([best, *level])} lie within noise of each other"
    elif len(unsettled) == len(pairs):
        return f"undecided: what is known of {_list(unsettled)} is only a bound"
    else:
        text = f"{best} has the lowest bound" if bound else f"{best} wins"
        text += "" if pairs[0].basis == "seeds" else ", on one seed"
    return f"{text}; of {_list(unsettled)} only a bound is known" if unsettled else text


def _numbers(results: Results, pairs: Sequence[Difference]) -> str:
    """What the best needs, and how much more the others do: of many, the first few."""
    best, yardstick = pairs[0].left, pairs[0].yardstick
    score = results.score(best, yardstick)
    assert score is not None, "it is in the ranking"
    told = pairs if len(results.recipes) <= MANY else pairs[:_TOLD]
    over = "over seeds" if told[0].basis == "seeds" else "over windows"
    needs = [f"{best} needs {score.mean:.3f} bits a token"]
    for number, pair in enumerate(told):
        found = pair.estimate
        text = f"{pair.right} {0.0 - found.mean:.3f} more"
        if found.low is not None and found.high is not None:
            interval = f"95 % interval {over}" if number == 0 else "interval"
            noise = "" if pair.clear else ": within noise"
            text += f" ({interval} {-found.high:.3f} to {-found.low:.3f}{noise})"
        needs.append(text)
    if rest := [-pair.estimate.mean for pair in pairs[len(told) :]]:
        needs.append(f"the other {len(rest)} {min(rest):.3f} to {max(rest):.3f} more")
    return "; ".join(needs) + "."


def _seen(results: Results, yardstick: str) -> list[str]:
    """What the models saw, where that differs: nobody wins a race over another distance."""
    views: dict[str, list[str]] = {}
    for name in results.ranking(yardstick):
        view, _, _ = results.standing(name, yardstick).sees.partition(":")  # after the colon stands how, not what
        views.setdefault(view, []).append(name)
    if len(views) < 2 or len(results.recipes) > MANY:
        return []
    told = [f"{_list(names)} {'sees' if len(names) == 1 else 'see'} {view}" for view, names in views.items()]
    return [f"Not alike: {'; '.join(told)}."]


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
