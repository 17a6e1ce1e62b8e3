"""Export a run, a fine-tuned model or an imported one to transformers: weights, configuration, tokenizer, model card.

The folder loads with transformers' Auto classes and AutoTokenizer, offline, and gives the same numbers.
"""

from __future__ import annotations

import argparse
from pathlib import Path


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="RUN", type=Path, help="a run's folder, or a model folder")
    parser.add_argument("--to", choices=["hf"], default="hf", help="what to export to (%(default)s)")
    parser.add_argument("--out", metavar="FOLDER", type=Path, required=True, help="a new folder")
    parser.add_argument("--results", metavar="FILE", type=Path, help="for the card: what `anyorder eval --json` wrote")


def run(args: argparse.Namespace) -> int:
    from .need_hf import need_hf

    need_hf()
    from anyorder.core import CheckpointError
    from anyorder.hf import export_hf

    from .exportable import exportable

    if args.out.exists():
        raise CheckpointError(f"{args.out} exists already; choose another folder, or remove it yourself")
    found = exportable(args.model, results=args.results, name=args.out.name)
    export_hf(found.model, args.out, card=found.card, config=found.config, labels=found.labels)
    print(
        f"{args.out}: load it with transformers' Auto classes, or XLNetLMHeadModel.from_pretrained({str(args.out)!r})"
    )
    return 0
