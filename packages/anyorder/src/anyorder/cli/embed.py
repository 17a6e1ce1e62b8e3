"""Write the hidden states of texts to a safetensors file: one vector a text, or one a token.

MODEL is a run's folder or what `anyorder import` made. Without pooling the file holds `states` of all tokens one after
another, their `ids`, and `offsets`, where each text begins.
"""

from __future__ import annotations

import argparse
from pathlib import Path


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", type=Path, help="a run's folder, or an imported model's")
    parser.add_argument("--text", metavar="TEXT", action="append", default=[], help="a text; may be repeated")
    parser.add_argument("--file", metavar="FILE", type=Path, help="a text a line")
    parser.add_argument("--out", metavar="FILE", type=Path, required=True, help="the safetensors file to write")
    parser.add_argument(
        "--pool", choices=["mean", "cls", "none"], default="mean", help="one vector a text (%(default)s)"
    )
    parser.add_argument("--layer", metavar="N", type=int, help="1 is the first, 0 the embedding; the last by default")
    parser.add_argument("--length", metavar="N", type=int, help="most tokens; by default as in training")
    parser.add_argument("--device", metavar="NAME", default="auto", help="cpu, cuda or auto (%(default)s)")


def run(args: argparse.Namespace) -> int:
    from anyorder.core import RecipeError

    if args.out.exists():
        raise RecipeError(f"{args.out} exists already; choose another file, or remove it yourself")
    from safetensors.torch import save

    from anyorder.train.atomic import write_bytes

    from .embeddings import embed
    from .open_model import open_model
    from .texts import texts_of

    texts = texts_of(args.text, args.file)
    model = open_model(args.model, device=args.device)
    tensors = embed(model, texts, pool=args.pool, layer=args.layer, length=args.length)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(args.out, save(tensors))
    shapes = ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in tensors.items())
    print(f"{args.out}: {shapes}")
    return 0
