"""Fill the blanks of a text: the likeliest pieces for each <mask>, and for all of them together.

MODEL is a run's folder or what `anyorder import` made. Each <mask> is one piece of the vocabulary (▁ begins a word).
Blanks together are by the chain rule, from left to right, each knowing those before it.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", type=Path, help="a run's folder, or an imported model's")
    parser.add_argument("text", metavar="TEXT", help="a text with blanks, such as 'The <mask> of the world.'")
    parser.add_argument("--top", metavar="N", type=int, default=5, help="guesses to show (%(default)s)")
    parser.add_argument("--beam", metavar="N", type=int, default=32, help="fillings kept in the search (%(default)s)")
    parser.add_argument("--context", metavar="TEXT", default="", help="given text before it")
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    parser.add_argument("--device", metavar="NAME", default="auto", help="cpu, cuda or auto (%(default)s)")


def run(args: argparse.Namespace) -> int:
    from anyorder.core import RecipeError

    for name in ("top", "beam"):
        if getattr(args, name) < 1:
            raise RecipeError(f"--{name} {getattr(args, name)}: a number, 1 or more")
    from .blanks import fill
    from .open_model import open_model

    model = open_model(args.model, device=args.device)
    filled = fill(model, args.text, top=args.top, beam=args.beam, context=args.context)
    if args.json:
        print(json.dumps(vars(filled), ensure_ascii=False))
        return 0
    for number, found in enumerate(filled.blanks, start=1):
        print(f"blank {number}, the others unknown" if len(filled.blanks) > 1 else "the blank")
        for piece, score in found:
            print(f"  {math.exp(score):8.4f}  {piece}")
    if len(filled.blanks) > 1:
        print("all blanks together")
        for text, _, score in filled.joint:
            print(f"  {math.exp(score):10.3g}  {text}")
    return 0
