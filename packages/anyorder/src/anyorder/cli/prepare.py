"""Turn text into a corpus that recipes can name as data.corpus.

Sources are .txt, .jsonl, .csv (also .gz) and .parquet files, folders of these, and hf:NAME of Hugging Face datasets.
"""

from __future__ import annotations

import argparse
from pathlib import Path


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sources", metavar="SOURCE", nargs="+", help="a file, a folder or hf:NAME[:CONFIG[:SPLIT]]")
    parser.add_argument("--out", metavar="FOLDER", type=Path, required=True, help="where the corpus goes")
    parser.add_argument("--tokenizer", metavar="FILE", type=Path, help="a SentencePiece model; trained by default")
    parser.add_argument("--vocab-size", metavar="N", type=int, default=8000, help="of a trained one (%(default)s)")
    parser.add_argument("--lower", action="store_true", help="lower-case the text")
    parser.add_argument("--text-field", metavar="NAME", default="text", help="field of records (%(default)s)")
    parser.add_argument(
        "--documents",
        choices=["form_feed", "file", "blank_line"],
        default="form_feed",
        help="what ends a document of a text file beside its end (%(default)s)",
    )
    parser.add_argument(
        "--valid-fraction", metavar="F", type=float, default=0.02, help="share of tokens held out (%(default)s)"
    )
    parser.add_argument("--workers", metavar="N", type=int, help="processes; all cores by default")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="of the split (%(default)s)")
    parser.add_argument("--overwrite", action="store_true", help="replace another corpus in FOLDER")


def run(args: argparse.Namespace) -> int:
    from anyorder.data import prepare

    prepare(
        args.sources,
        args.out,
        tokenizer=args.tokenizer,
        vocab_size=args.vocab_size,
        lower=args.lower,
        text_field=args.text_field,
        documents=args.documents,
        valid_fraction=args.valid_fraction,
        workers=args.workers,
        seed=args.seed,
        overwrite=args.overwrite,
    )
    print(f"{args.out}: ready; use it with --set data.corpus={args.out}, or in a recipe by its path from there")
    return 0
