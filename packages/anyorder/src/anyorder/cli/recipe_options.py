"""Options of every command that reads a recipe."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anyorder.train.recipe import Recipe


def add_recipe(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    parser.add_argument("recipe", metavar="RECIPE", nargs=None if required else "?", help="a recipe, a YAML file")
    add_settings(parser)


def add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        dest="settings",
        metavar="PATH=VALUE",
        action="append",
        default=[],
        help="a setting over the recipe's, such as optimizer.lr=1e-3; may be repeated",
    )


def add_yardsticks(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--yardsticks",
        metavar="WHICH",
        default="basic",
        help="%(default)s; all, which adds any_order, diffusion_bound and pseudo_likelihood, with many more passes; or "
        "names divided by commas",
    )


def load(args: argparse.Namespace) -> Recipe:
    from anyorder.train.recipe import load_recipe

    return load_recipe(args.recipe, overrides=args.settings)
