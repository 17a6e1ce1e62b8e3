"""Draw what may see what: a sentence under an order, or a segment of a recipe's own data.

  anyorder inspect --order 2,4,1,3                              the worked example of the XLNet paper
  anyorder inspect --text "New York is a city" --targets New,York
  anyorder inspect RECIPE --text "New York is a city"           an order drawn by the recipe's sampler
  anyorder inspect --leaks RECIPE                               can any prediction see its own answer?
  anyorder inspect --coverage RECIPE                            what do predictions know, and how often anew?

Places count from 1. Prints tables and counts, and writes a picture. With --leaks, exit code 1 says that there is one.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .recipe_options import add_recipe, load


def configure(parser: argparse.ArgumentParser) -> None:
    add_recipe(parser, required=False)
    parser.add_argument("--order", metavar="2,4,1,3", help="places of the tokens in the order of prediction")
    parser.add_argument("--text", metavar="TEXT", help="a sentence, its tokens divided by spaces")
    parser.add_argument(
        "--targets", metavar="A,B", help="tokens (or places) to predict, in this order; others are given"
    )
    parser.add_argument("--masks", metavar="TYPE", help="mask builder (two_stream, or the recipe's)")
    parser.add_argument("--memory", metavar="N", type=int, help="remembered tokens (none, or the recipe's)")
    parser.add_argument("--step", metavar="N", type=int, default=0, help="which step of a recipe (%(default)s)")
    parser.add_argument("--out", metavar="FILE", type=Path, help="the picture; visibility.png by default")
    parser.add_argument("--leaks", action="store_true", help="audit RECIPE for leaks instead")
    parser.add_argument(
        "--coverage", action="store_true", help="count the conditionals that RECIPE trains instead of drawing one"
    )
    parser.add_argument("--draws", metavar="N", type=int, help="orders drawn of the same rows for --coverage (32)")


def run(args: argparse.Namespace) -> int:
    from anyorder.core import RecipeError

    if args.memory is not None and args.memory < 0:
        raise RecipeError(f"--memory {args.memory}: a number of tokens, 0 or more")
    if args.step < 0:
        raise RecipeError(f"--step {args.step}: a step, 0 or more")
    if args.out is not None and args.out.suffix not in (".png", ".svg", ".pdf"):
        raise RecipeError(f"--out {args.out}: name a .png, .svg or .pdf file")
    if args.draws is not None and (args.draws < 1 or not args.coverage):
        raise RecipeError(f"--draws {args.draws}: a number of draws, 1 or more, for --coverage")
    if args.leaks and args.coverage:
        raise RecipeError("--leaks and --coverage are two questions; ask one at a time")
    if args.leaks or args.coverage:
        if args.recipe is None:
            option = "--leaks" if args.leaks else "--coverage"
            raise RecipeError(f"{option} needs a recipe: anyorder inspect {option} RECIPE")
        if args.leaks:
            from .leak_audit import audit

            return audit(load(args), step=args.step)
        from .coverage import print_coverage

        return print_coverage(load(args), step=args.step, draws=args.draws or 32)
    from .visibility_picture import draw
    from .visibility_source import view_of_recipe, view_of_sentence

    if args.recipe is None:
        if args.settings:
            raise RecipeError("--set needs a recipe to set something in")
        view = view_of_sentence(
            args.text, order=args.order, targets=args.targets, masks=args.masks, memory=args.memory or 0
        )
    else:
        for option in ("order", "targets", "masks"):
            if getattr(args, option) is not None:
                raise RecipeError(f"--{option} has no place beside a recipe, which says it itself (--set changes it)")
        view = view_of_recipe(load(args), text=args.text, memory=args.memory, step=args.step)
    encoding = (sys.stdout.encoding or "ascii").lower()
    text = view.text(plain=not encoding.startswith("utf"))
    print(text.encode(encoding, "replace").decode(encoding))
    path = args.out or _free_name(Path("visibility.png"))
    draw(view, path)
    print(f"\npicture: {path}")
    return 0


def _free_name(path: Path) -> Path:
    """The path, or the first with a number that is not taken."""
    number, chosen = 2, path
    while chosen.exists():
        chosen = path.with_stem(f"{path.stem}-{number}")
        number += 1
    return chosen
