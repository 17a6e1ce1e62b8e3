"""List the parts that recipes can name, with their arguments.

Parts come from the installed packages, yours included. A part that does not import is listed with the reason.
`list attention-backends` also says what each backend can do on this machine.
"""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "seam", metavar="SEAM", nargs="?", help="only parts of this kind, such as order or attention-backends"
    )


def run(args: argparse.Namespace) -> int:
    from anyorder.core import SEAMS, RecipeError, available, did_you_mean

    from .backend_table import backend_table

    kinds = {seam: seam for seam in SEAMS} | {_dashed(group): seam for seam, group in SEAMS.items()}
    if args.seam is not None and args.seam not in kinds:
        near = did_you_mean(args.seam, kinds)
        raise RecipeError(f"no kind of part is called {args.seam!r} (there are {', '.join(SEAMS)}){near}")
    for seam in [kinds[args.seam]] if args.seam else SEAMS:
        print(f"{seam}  ({SEAMS[seam]})")
        offers = available(seam)
        if not offers:
            print("  none installed")
        for name in offers:
            print("\n".join(_describe(seam, name)))
        print()
    if args.seam is not None and kinds[args.seam] == "attention":
        print("\n".join(backend_table()), end="\n\n")
    print("A part of your own needs no packaging: `type: my_file.Zigzag` finds my_file.py beside the recipe.")
    return 0


def _dashed(group: str) -> str:
    """``attention-backends`` of ``anyorder.attention_backends``."""
    return group.rpartition(".")[2].replace("_", "-")


def _describe(seam: str, name: str) -> list[str]:
    from anyorder.core import PluginError, available, find
    from anyorder.train.recipe import first_line, signature

    owners = sorted({_owner(point) for point in available(seam)[name]})
    head = f"  {name:<16} {', '.join(owners)}"
    try:
        part = find(seam, name)
    except PluginError as error:
        return [head, f"    BROKEN: {' '.join(str(error).split())}"]
    parameters, open_ended = signature(part)
    arguments = [str(parameter) for parameter in parameters.values()] + ["..."] * open_ended
    return [head, f"    {first_line(part).replace('``', '')}", *([f"    {', '.join(arguments)}"] if arguments else [])]


def _owner(point: object) -> str:
    dist = getattr(point, "dist", None)
    return f"{dist.name} {dist.version}" if dist is not None else "an unnamed distribution"
