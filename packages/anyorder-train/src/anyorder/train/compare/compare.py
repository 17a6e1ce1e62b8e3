"""Train recipes over seeds, measure every model alike, and report."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from anyorder.core import RecipeError

from ..assemble import open_text
from ..atomic import sole_owner
from ..failure import TrainingError
from ..recipe import Recipe
from ..rows import TextRows
from ..run import choose_tracker, require_same
from ..tracking.mlflow import default_uri
from .budget import budget_of, require_equal
from .cell import Cell, CellResult, Questions
from .comparison import Comparison
from .process import CellFailedError, run_in_process
from .report import write_report
from .results import Results

__all__ = ["ComparisonFailedError", "compare"]

logger = logging.getLogger(__name__)

RunCell = Callable[..., CellResult]
"""``(cell, *, parent, uri) -> CellResult``, raising ``CellFailedError`` where a cell fails."""


class ComparisonFailedError(TrainingError):
    """Some cells failed. The report has the others; the same command tries the failed ones again."""


def compare(
    recipes: Sequence[Recipe],
    *,
    seeds: int = 1,
    folder: Path,
    unequal: bool = False,
    questions: Questions | None = None,
    run_cell: RunCell = run_in_process,
) -> Comparison:
    """Compare recipes on equal budgets.

    Every recipe is trained with every seed, ``seed`` of the first recipe and those after it, in cells of their own.
    Cells that are done are not done again; one that was interrupted goes on from its checkpoint. The folder gets
    ``report.md``, ``report.html``, ``comparison.json``, ``figures/`` and ``cells/RECIPE/seed-N/``.

    Args:
        recipes: of different names.
        seeds: how many.
        folder: of the comparison.
        unequal: compare recipes whose budgets differ, and say so in the report. What belongs to an objective, such as
            ELECTRA's generator, may always differ; the report has a note on it.
        questions: what to ask of every model.
        run_cell: trains and measures a cell; in a process of its own unless told.

    Raises:
        UnequalBudgetsError: recipes differ in tokens, steps, text or backbone.
        CheckpointError: the folder holds a comparison of other recipes, or another process works in it.
        ComparisonFailedError: some cells failed; the report of the others is written.
        Interrupted: a signal stopped it.
    """
    _check(recipes, seeds=seeds)
    texts = {recipe.name: open_text(recipe) for recipe in recipes}
    budgets = {recipe.name: budget_of(recipe, texts[recipe.name]) for recipe in recipes}
    if not unequal:
        require_equal(budgets)
    questions = _alike(questions or Questions(), texts)
    for text in texts.values():
        questions.windows_of(text)  # so that nothing is trained in vain
    cells = [
        Cell.of(recipe, seed=recipes[0].seed + number, folder=folder, questions=questions)
        for number in range(seeds)
        for recipe in recipes
    ]
    for cell in cells:
        require_same(cell.recipe, cell.folder)
    tracker = choose_tracker(recipes[0])
    params = {"recipes": [recipe.name for recipe in recipes], "seeds": seeds, "windows": questions.windows}
    params |= {"yardsticks": questions.yardsticks}
    tags = {"anyorder.kind": "comparison"}
    with sole_owner(folder), tracker.run(folder, name=folder.name, params=params, tags=tags, resume=True) as tracked:
        uri = default_uri(folder)
        done, failures = [], {}
        for number, cell in enumerate(cells, start=1):
            found = cell.finished(corpus=budgets[cell.recipe.name].corpus)
            logger.info("cell %d of %d: %s%s", number, len(cells), cell.label, " (done before)" if found else "")
            try:
                done.append(found or run_cell(cell, parent=tracked.run_id, uri=uri))
            except CellFailedError as error:
                logger.error("%s", error)
                failures[cell.label] = str(error)
        comparison = Comparison(
            folder=folder,
            recipes=recipes,
            budgets=budgets,
            results=Results(done, recipes=[recipe.name for recipe in recipes]),
            failures=failures,
            questions=questions,
        )
        if done:
            files = write_report(comparison)
            tracked.metrics(_metrics(comparison), step=len(done))
            for file in files:
                tracked.artifact(file, folder="" if file.parent == folder else file.parent.name)
        if failures:
            where = f"; the report of the others is {folder / 'report.html'}" if done else ""
            raise ComparisonFailedError(
                f"{len(failures)} of {len(cells)} cells failed: {next(iter(failures.values()))}{where}. The same "
                "command tries them again"
            )
    return comparison


def _check(recipes: Sequence[Recipe], *, seeds: int) -> None:
    if seeds < 1:
        raise RecipeError(f"seeds is {seeds}; it must be 1 or more")
    names = [recipe.name for recipe in recipes]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise RecipeError(f"two recipes are called {twice!r}; give each a name of its own", path="name")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise RecipeError(
            "a comparison runs its cells one after another, in processes of their own; start it without torchrun"
        )


def _alike(questions: Questions, texts: Mapping[str, TextRows]) -> Questions:
    """The same windows and hidden tokens for all: as long as the shortest segment, hidden where all see everything."""
    rows = [text.train for text in texts.values()]
    length = min(row.length for row in rows)
    tail = min(length, *(row.last_block for row in rows))
    return replace(questions, length=length, tail=tail)


def _metrics(comparison: Comparison) -> dict[str, float]:
    results, values = comparison.results, {}
    for name in results.yardsticks:
        for recipe in results.recipes:
            found = results.score(recipe, name)
            if found is not None:
                values[f"{recipe}/{name}/bits_per_token"] = found.mean
    return values
