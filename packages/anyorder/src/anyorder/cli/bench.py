"""Measure speed and memory against real peers, in turn in one process, as medians and ratios.

  anyorder bench step --rows 2 --layers 4        a training step of XLNet-Base's shape against transformers'
  anyorder bench attention --length 4096         every attention backend that trains here, against naive
  anyorder bench memory                          peak memory as the length grows
  anyorder bench sampling                        orders and masks against transformers' collator

Refuses to report where ours and the peer disagree on the same inputs. Needs: pip install 'anyorder[bench]'
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
from typing import Any


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=["step", "attention", "memory", "sampling"])
    parser.add_argument("--rows", type=int, help="rows of a batch (2 for step, 8 for sampling)")
    parser.add_argument("--layers", type=int, default=12, help="layers of the step (%(default)s)")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--attention", metavar="BACKEND", help="our backend (tiled for step, chunked for memory)")
    parser.add_argument("--length", type=int, default=4096, help="tokens, for attention (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds (%(default)s)")
    parser.add_argument("--dropout", type=float, default=0.1, help="of the step's models (%(default)s)")
    parser.add_argument("--out", metavar="FOLDER", type=Path, help="also write JSON, text and a picture there")


def run(args: argparse.Namespace) -> int:
    from anyorder.core import RecipeError

    if args.what in ("step", "sampling") and importlib.util.find_spec("transformers") is None:
        raise RecipeError("the peer is transformers, which is not installed: pip install 'anyorder[bench]'")
    from anyorder.train import bench

    machine = bench.where()
    result: dict[str, Any]
    match args.what:
        case "step":
            result = bench.bench_step(
                rows=args.rows or 2,
                layers=args.layers,
                precision=args.precision,
                attention=args.attention or "tiled",
                dropout=args.dropout,
                rounds=args.rounds,
            )
        case "attention":
            result = bench.bench_attention(length=args.length, rounds=args.rounds)
        case "memory":
            result = bench.bench_memory(backend=args.attention or "chunked")
        case _:
            result = bench.bench_sampling(rows=args.rows or 8, rounds=max(args.rounds, 20))
    result["where"] = machine
    print(bench.as_text(result))
    if args.out is not None:
        for path in bench.save(result, args.out, name=_name(args, result)):
            print(path)
    return 0


def _name(args: argparse.Namespace, result: dict[str, Any]) -> str:
    if args.what == "step":
        return f"step-{args.precision}-rows{result['settings']['rows']}-layers{args.layers}"
    return str(args.what)
