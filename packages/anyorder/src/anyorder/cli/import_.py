"""Import a model: XLNet as transformers saves it (hf), or an official TensorFlow checkpoint (tf).

What is made is a model folder: model.safetensors, model.json and spiece.model. `anyorder score`, `fill`, `embed`,
`export` and `finetune` take it; `anyorder train RECIPE --from FOLDER` goes on training it. Nothing is downloaded, and
no file is read that could run code.
"""

from __future__ import annotations

import argparse
from pathlib import Path


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=["hf", "tf"], help="hf: transformers; tf: the official TensorFlow code")
    parser.add_argument("source", metavar="PATH", help="the folder, or for hf a name in the Hugging Face cache")
    parser.add_argument("--out", metavar="FOLDER", type=Path, required=True, help="the model folder to make")
    parser.add_argument("--tokenizer", metavar="FILE", type=Path, help="a SentencePiece model; the source's by default")
    parser.add_argument(
        "--activation",
        choices=["gelu", "gelu_exact", "relu"],
        help="hf: in place of the configuration's; gelu is the tanh approximation of the official code",
    )
    parser.add_argument("--prefix", metavar="NAME", help="tf: the checkpoint, where the folder holds several")
    parser.add_argument("--optimizer", action="store_true", help="tf: the optimiser's moments too, for `train --from`")
    parser.add_argument("--lower", action="store_true", help="tf: the model was trained on lower-cased text")


def run(args: argparse.Namespace) -> int:
    from .need_hf import need_hf

    need_hf()
    from anyorder.core import CheckpointError, RecipeError
    from anyorder.hf import import_hf, import_tf

    if args.out.exists():
        raise CheckpointError(f"{args.out} exists already; choose another folder, or remove it yourself")
    other = ("prefix", "optimizer", "lower") if args.kind == "hf" else ("activation",)
    for name in other:
        if getattr(args, name):
            raise RecipeError(f"--{name} means nothing for {args.kind!r}")
    if args.kind == "hf":
        model = import_hf(args.source, activation=args.activation, tokenizer=args.tokenizer)
    else:
        model = import_tf(
            args.source, prefix=args.prefix, tokenizer=args.tokenizer, optimizer=args.optimizer, lower=args.lower
        )
    model.save(args.out)
    shape = model.architecture
    count = sum(model.state[name].numel() for name in model.state)
    print(
        f"{args.out}: {shape.n_layer} layers, width {shape.d_model}, {shape.n_head} heads, "
        f"{shape.vocab_size:,} pieces, {count:,} numbers"
    )
    for note in model.notes:
        print(f"note: {note}")
    return 0
