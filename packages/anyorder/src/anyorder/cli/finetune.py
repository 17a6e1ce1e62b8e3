"""Fine-tune a pretrained run or an imported model for classification.

The recipe names labelled texts (.jsonl, .csv or .tsv), the head and the optimiser; see recipes/finetune. Accuracy on
the dev file is printed after each epoch. Weights, classes and log go to the folder of --out.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .recipe_options import add_recipe


def configure(parser: argparse.ArgumentParser) -> None:
    add_recipe(parser)
    parser.add_argument(
        "--from",
        dest="pretrained",
        metavar="RUN",
        type=Path,
        required=True,
        help="folder of a run or of an imported model",
    )
    parser.add_argument("--out", metavar="FOLDER", type=Path, help="a new folder; RUN-finetuned by default")


def run(args: argparse.Namespace) -> int:
    from anyorder.train.finetune import finetune, load_finetuning

    recipe = load_finetuning(args.recipe, overrides=args.settings)
    folder = args.out or args.pretrained.with_name(f"{args.pretrained.name}-finetuned")
    result = finetune(
        recipe, pretrained=args.pretrained, folder=folder, note=lambda line: print(line, file=sys.stderr, flush=True)
    )
    print(
        f"{folder}: accuracy {result.accuracy:.4f} on {result.dev:,} examples, "
        f"after {result.steps:,} steps on {result.train:,}"
    )
    return 0
