"""Write on from a text, a token at a time from left to right, with cached keys and values.

MODEL is a run's folder or what `anyorder import` made: one that predicts left to right or in any order. It was trained
on windows of a certain length; of a longer text it remembers as much. Without TEXT a new document begins.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", type=Path, help="a run's folder, or an imported model's")
    parser.add_argument("text", metavar="TEXT", nargs="?", default="", help="what stands before it")
    parser.add_argument("--tokens", metavar="N", type=int, default=60, help="most tokens to write (%(default)s)")
    parser.add_argument("--texts", metavar="N", type=int, default=1, help="how many to write (%(default)s)")
    parser.add_argument("--temperature", metavar="T", type=float, default=1.0, help="0: the likeliest (%(default)s)")
    parser.add_argument("--top-p", metavar="P", type=float, default=0.95, help="nucleus to draw from (%(default)s)")
    parser.add_argument("--top-k", metavar="K", type=int, default=0, help="likeliest tokens to draw from; 0: all")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="of the draws (%(default)s)")
    parser.add_argument("--window", metavar="N", type=int, help="tokens remembered (what the model is used to)")
    parser.add_argument("--json", action="store_true", help="print a JSON object a text")
    parser.add_argument("--device", metavar="NAME", default="auto", help="cpu, cuda or auto (%(default)s)")


def run(args: argparse.Namespace) -> int:
    _check(args)
    import torch

    from anyorder.train.decode import Decoder, Sampling, generate

    from .open_model import open_model

    model = open_model(args.model, device=args.device)
    tokenizer, vocab = model.tokenizer, model.objective.vocab
    given = [vocab.eod, *(tokenizer.encode(args.text) if args.text else [])]
    written = generate(
        Decoder(model.objective, window=args.window or model.length),
        torch.tensor([given] * args.texts),
        tokens=args.tokens,
        sampling=Sampling(temperature=args.temperature, top_k=args.top_k, top_p=args.top_p),
        seed=args.seed,
        forbidden=tuple({*vocab.control} - {vocab.eod}),
    )
    for row in written.tolist():
        ids = row[: row.index(vocab.eod)] if vocab.eod in row else row
        text = tokenizer.decode(given[1:] + ids)
        print(json.dumps({"text": text, "tokens": len(ids)}, ensure_ascii=False) if args.json else text)
    return 0


def _check(args: argparse.Namespace) -> None:
    from anyorder.core import RecipeError

    for name in ("tokens", "texts", "window"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise RecipeError(f"--{name} {value}: a number, 1 or more")
    if not args.temperature >= 0:
        raise RecipeError(f"--temperature {args.temperature}: 0 or more")
    if not 0 < args.top_p <= 1:
        raise RecipeError(f"--top-p {args.top_p}: over 0, at most 1")
    if args.top_k < 0:
        raise RecipeError(f"--top-k {args.top_k}: 0 (all) or more")
