"""Begin a part of your own: a package with a working part, its tests and recipes, found by name once installed.

  anyorder new order-sampler zigzag        makes anyorder-zigzag/
  anyorder new loss-head focal --out parts

A single file needs no package: beside a recipe, `type: my_file.Zigzag` finds my_file.py.
"""

from __future__ import annotations

import argparse
from pathlib import Path


def configure(parser: argparse.ArgumentParser) -> None:
    kinds = "order-sampler, mask-builder, loss-head, attention-backend, position-bias or memory"
    parser.add_argument("kind", metavar="KIND", help=kinds)
    parser.add_argument("name", metavar="NAME", help="what recipes will call it, such as zigzag")
    parser.add_argument("--out", metavar="FOLDER", type=Path, default=Path(), help="where its folder goes (here)")


def run(args: argparse.Namespace) -> int:
    from importlib.metadata import version

    from anyorder.core import RecipeError, did_you_mean

    from .scaffold import KINDS, write_package

    if args.kind not in KINDS:
        near = did_you_mean(args.kind, KINDS)
        raise RecipeError(f"no kind of part is called {args.kind!r} (there are {', '.join(KINDS)}){near}")
    folder = write_package(KINDS[args.kind], args.name, parent=args.out, version=version("anyorder-core"))
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        print(path)
    print(f"\nnext: cd {folder} && pip install -e . && pytest")
    return 0
