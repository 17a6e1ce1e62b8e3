"""Printing which conditionals a recipe trains."""

from __future__ import annotations

import torch

from anyorder.train.assemble import assemble, open_text
from anyorder.train.coverage import Conditional, Coverage, conditionals, count_coverage
from anyorder.train.recipe import Recipe

__all__ = ["print_coverage"]

_ROWS = 2


def print_coverage(recipe: Recipe, *, step: int, draws: int) -> int:
    """Draw a recipe's orders again and again over the same rows of its data, and print what predictions know."""
    data = open_text(recipe)
    with torch.device("meta"):  # nothing is computed but masks
        objective = assemble(recipe, vocab=data.vocab, training=False)
    batch = data.train.batch(step).map(lambda part: part[:_ROWS])
    found: list[Conditional] = []
    print(f"{recipe.name}: {batch.rows} rows of {batch.length} tokens, the same in every draw; memory left out")
    print(f"{'draws':>7}{'predictions':>13}{'distinct':>10}{'pairs':>9}")
    wanted = sorted({*(2**power for power in range(draws.bit_length())), draws})
    for number in range(draws):
        plan = objective.plan(batch, seed=recipe.seed, step=step + number)
        streams = objective.prepare(batch, seed=recipe.seed, step=step + number, plan=plan)
        found.extend(conditionals(batch, plan, streams))
        if number + 1 in wanted:
            counted = count_coverage(found)
            print(f"{number + 1:>7}{counted.predictions:>13,}{counted.distinct:>10,}{counted.pairs:>9,}")
    print("distinct: different conditionals p(x | K), K being all that a prediction knows; pairs: x with one of K\n")
    print(_summary(count_coverage(found)))
    return 0


def _summary(counted: Coverage) -> str:
    if not counted.predictions:
        return "no prediction was made"
    known, targets = (number / counted.predictions for number in (counted.known, counted.known_targets))
    lines = [f"a prediction knows {known:.1f} tokens of its segment, {targets:.1f} of which are predicted themselves"]
    if counted.known_targets:
        lines.append(
            "predicted at once, as by a denoising auto-encoder, the same targets would know none of each other: "
            f"{_times(counted)} as many dependencies (x, U within K) are covered"
        )
    else:
        lines.append(
            "no prediction knows another target: as a denoising auto-encoder, it covers U within the rest only"
        )
    return "\n".join(lines)


def _times(counted: Coverage) -> str:
    whole = int(counted.gain)  # too large for a float, at times
    return f"{float(counted.gain):.3g} times" if whole < 10**6 else f"about 2^{whole.bit_length() - 1} times"
