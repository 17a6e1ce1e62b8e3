"""Show what a recipe comes to: every setting, defaults included, and the sizes that follow from it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .recipe_options import add_recipe, load

if TYPE_CHECKING:
    from anyorder.train.recipe import Recipe


def configure(parser: argparse.ArgumentParser) -> None:
    add_recipe(parser)
    parser.add_argument("--origins", action="store_true", help="show where each value was written")


def run(args: argparse.Namespace) -> int:
    recipe = load(args)
    if args.origins:
        values = dict(_leaves(recipe.tree))
        width = max(map(len, values))
        for path, value in values.items():
            print(f"{path:<{width}}  {value!s:<20}  {recipe.origins[path]}")
    else:
        print(recipe.dump(), end="")
    print()
    for name, size in _sizes(recipe).items():
        print(f"# {name:<24} {size}")
    return 0


def _sizes(recipe: Recipe) -> dict[str, str]:
    from anyorder.train.assemble import count_parameters, sizes

    found = sizes(recipe)
    parameters = count_parameters(recipe)
    return {
        "parameters": f"{parameters:,}",
        "tokens a step": f"{found.tokens_per_step:,} ({found.rows} rows of {found.length}, {found.stride} of them new)",
        "targets a row": f"at most {found.targets} of {found.length}",
        "memory": f"{found.mem_len} tokens a layer: at most {found.span:,} tokens back through {found.layers} layers",
        "digest": recipe.digest,
    }


def _leaves(tree: Any, path: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in tree.items():
        inner = f"{path}.{key}" if path else key
        found += _leaves(value, inner) if isinstance(value, dict) and value else [(inner, value)]
    return found
