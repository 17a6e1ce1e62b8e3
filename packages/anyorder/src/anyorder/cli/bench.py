"""Measure speed and memory against real peers, in turn in one process, as medians and ratios.

  anyorder bench step --rows 2 --layers 4        a training step of XLNet-Base's shape against transformers'
  anyorder bench decode                          a token written left to right, against transformers'
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
    parser.add_argument("what", choices=["step", "decode", "attention", "memory", "sampling"])
    parser.add_argument("--rows", type=int, help="rows of a batch (2 for step, 1 for decode, 32 for sampling)")
    parser.add_argument("--layers", type=int, default=12, help="layers of step and decode (%(default)s)")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32", help="of the step (%(default)s)")
    parser.add_argument("--attention", metavar="BACKEND", help="our backend (tiled for step, chunked for memory)")
    parser.add_argument("--length", type=int, help="tokens: 4096 for attention, a window of 512 for decode")
    parser.add_argument("--rounds", type=int, help="counted rounds (5; 20 for decode and sampling)")
    parser.add_argument("--dropout", type=float, default=0.1, help="of the step's models (%(default)s)")
    parser.add_argument("--out", metavar="FOLDER", type=Path, help="also write JSON, text and a picture there")
    parser.add_argument("--track", metavar="FOLDER", type=Path, help="also a run in MLflow: FOLDER/mlflow.db")


def run(args: argparse.Namespace) -> int:
    _check(args)
    from anyorder.data.progress import Progress
    from anyorder.train import bench

    progress, machine = Progress(), bench.where()
    rounds = args.rounds or (20 if args.what in ("decode", "sampling") else 5)
    result: dict[str, Any]
    match args.what:
        case "step":
            result = bench.bench_step(
                rows=args.rows or 2,
                layers=args.layers,
                precision=args.precision,
                attention=args.attention or "tiled",
                dropout=args.dropout,
                rounds=rounds,
                progress=progress,
            )
        case "decode":
            window, rows = args.length or 512, args.rows or 1
            result = bench.bench_decode(rows=rows, layers=args.layers, window=window, rounds=rounds, progress=progress)
        case "attention":
            result = bench.bench_attention(length=args.length or 4096, rounds=rounds, progress=progress)
        case "memory":
            result = bench.bench_memory(backend=args.attention or "chunked", progress=progress)
        case _:
            result = bench.bench_sampling(rows=args.rows or 32, rounds=rounds, progress=progress)
    result["where"] = machine
    print(bench.as_text(result))
    name, folder = _name(args, result), args.out or args.track
    if folder is None:
        return 0
    written = bench.save(result, folder, name=name)
    for path in written:
        print(path)
    if args.track is not None:
        bench.track(result, written, name=name, folder=args.track)
        print(f"anyorder ui {args.track}")
    return 0


def _check(args: argparse.Namespace) -> None:
    from anyorder.core import RecipeError

    for name in ("rows", "layers", "length", "rounds"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise RecipeError(f"--{name} {value}: a number, 1 or more")
    if not 0 <= args.dropout < 1:
        raise RecipeError(f"--dropout {args.dropout}: from 0 to under 1")
    if args.what == "step" and args.precision == "bf16":
        import torch

        from anyorder.train.precision import slow_bf16

        if slow := slow_bf16(torch.device("cpu")):
            raise RecipeError(f"--precision bf16: {slow}; a step would take minutes, and its ratio say nothing")
    if args.what in ("step", "decode", "sampling") and importlib.util.find_spec("transformers") is None:
        raise RecipeError("the peer is transformers, which is not installed: pip install 'anyorder[bench]'")


def _name(args: argparse.Namespace, result: dict[str, Any]) -> str:
    settings = result["settings"]
    match args.what:
        case "step":
            return f"step-{args.precision}-rows{settings['rows']}-layers{args.layers}"
        case "decode":
            return f"decode-rows{settings['rows']}-layers{args.layers}"
        case "attention":
            return f"attention-{settings['length']}"
        case "memory":
            return f"memory-{settings['backend']}"
        case _:
            return f"sampling-rows{settings['rows']}"
