"""Score text: bits per token, left to right and with all other tokens in view.

Left to right is the log-probability of the text: the identity order for a model of any order. With all others in view
it is the pseudo-log-likelihood, each token's log-probability given the rest, which is no probability of the text.
MODEL is a run's folder or what `anyorder import` made. A text stands after an end of document, or after --context.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", type=Path, help="a run's folder, or an imported model's")
    parser.add_argument("--text", metavar="TEXT", action="append", default=[], help="a text; may be repeated")
    parser.add_argument("--file", metavar="FILE", type=Path, help="a text a line")
    parser.add_argument("--context", metavar="TEXT", default="", help="given text before each")
    parser.add_argument("--length", metavar="N", type=int, help="tokens of a window; by default as in training")
    parser.add_argument("--no-pseudo", action="store_true", help="leave out the pseudo-log-likelihood, a pass a token")
    parser.add_argument("--tokens", action="store_true", help="show the bits of every token")
    parser.add_argument("--json", action="store_true", help="print a JSON object a text")
    parser.add_argument("--device", metavar="NAME", default="auto", help="cpu, cuda or auto (%(default)s)")


def run(args: argparse.Namespace) -> int:
    from .open_model import open_model
    from .text_scores import perplexity, score_text
    from .texts import texts_of

    texts = texts_of(args.text, args.file)
    model = open_model(args.model, device=args.device)
    for text in texts:
        score = score_text(model, text, context=args.context, length=args.length, pseudo=not args.no_pseudo)
        if args.json:
            print(json.dumps({"text": text, **vars(score)}, ensure_ascii=False))
            continue
        shown = text if len(text) <= 60 else text[:57] + "..."
        print(f"{shown}  ({len(score.pieces)} tokens)")
        for name, bits in (("left to right", score.left_to_right), ("all others in view", score.pseudo)):
            if bits is not None:
                mean = sum(bits) / len(bits)
                print(f"  {name:<19} {mean:8.3f} bits/token  {sum(bits):10.2f} bits  perplexity {perplexity(bits):.1f}")
            elif name == "left to right" or not args.no_pseudo:
                print(f"  {name:<19} not defined: the model was never asked this in training")
        if args.tokens:
            columns = [bits for bits in (score.left_to_right, score.pseudo) if bits is not None]
            for piece, *row in zip(score.pieces, *columns, strict=True):
                print(f"    {piece:<16}" + "".join(f"{value:10.3f}" for value in row))
    return 0
