"""Train several recipes over several seeds and measure them alike: one table, plots and a report.

Cells that are done are not done again. Recipes must train the same backbone on as many tokens of the same text, unless
--unequal says otherwise; what belongs to an objective, such as a generator, may differ, and is noted.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path

from .recipe_options import add_settings, add_yardsticks


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipes", metavar="RECIPE", nargs="+", help="recipes, the first being what others are held to")
    add_settings(parser)
    parser.add_argument("--seeds", metavar="N", type=int, default=1, help="seeds of each recipe (%(default)s)")
    parser.add_argument("--out", metavar="FOLDER", type=Path, help="runs/compare-NAMES by default")
    add_yardsticks(parser)
    parser.add_argument("--unequal", action="store_true", help="allow different tokens, steps, text or backbones")


def run(args: argparse.Namespace) -> int:
    from anyorder.core import RecipeError

    if args.seeds < 1:
        raise RecipeError(f"--seeds {args.seeds}: a number of seeds, 1 or more")
    from anyorder.train.compare import Questions, UnequalBudgetsError, compare
    from anyorder.train.recipe import load_recipe

    questions = Questions(yardsticks=args.yardsticks)
    recipes = [load_recipe(path, overrides=args.settings) for path in args.recipes]
    names = [recipe.name for recipe in recipes]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise RecipeError(f"two recipes are called {twice[0]!r}; give each a name of its own", path="name")
    folder = args.out or Path("runs") / _folder_name(names)
    if (folder / "metrics.jsonl").exists():
        raise RecipeError(f"--out {folder}: it holds a run of its own; choose another folder")
    try:
        report = compare(recipes, seeds=args.seeds, folder=folder, unequal=args.unequal, questions=questions)
    except UnequalBudgetsError as error:
        print(error.table, file=sys.stderr)
        raise
    print(report)
    return 0


def _folder_name(names: list[str]) -> str:
    """The recipes' names, or, of many, the first ones and a digest of all: the same for the same recipes."""
    if len(names) <= 6:
        return f"compare-{'-'.join(names)}"
    digest = hashlib.sha256("\n".join(names).encode()).hexdigest()[:8]
    return f"compare-{'-'.join(names[:3])}-and-{len(names) - 3}-more-{digest}"
