"""Train what a recipe describes.

The run's recipe, log, checkpoints and curves go to runs/NAME. Ctrl-C stops it after a checkpoint; --resume goes on.
Under torchrun the rows of a step are shared among the processes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from .recipe_options import add_recipe, load


def configure(parser: argparse.ArgumentParser) -> None:
    add_recipe(parser)
    parser.add_argument("--from", dest="start", metavar="MODEL", type=Path, help="go on training an imported model")
    parser.add_argument("--out", metavar="FOLDER", type=Path, help="the run's folder; runs/NAME by default")
    parser.add_argument("--resume", action="store_true", help="go on from the newest checkpoint in that folder")


def run(args: argparse.Namespace) -> int:
    if args.start is not None:
        from anyorder.core import RecipeError
        from anyorder.models import ABOUT

        if not (args.start / ABOUT).is_file():
            problem = f"--from {args.start}: no model folder: it has no {ABOUT}"
            raise RecipeError(f"{problem}; make one with `anyorder import`, or go on with a run by --resume")
        args.settings.append(f"model.init_from={json.dumps(str(args.start))}")
    recipe = load(args)
    from anyorder.train.run import run as train

    folder = args.out or Path("runs") / recipe.name
    result = train(recipe, folder=folder, resume=args.resume)
    print(f"{folder}: {result.step} steps, {result.tokens:,} tokens, {result.tokens_per_second:,.0f} tokens a second")
    return 0
