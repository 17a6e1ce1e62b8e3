"""Measure a finished run on held-out text: its own loss, and the yardsticks that models of any objective share."""

from __future__ import annotations

import argparse
from pathlib import Path

from .recipe_options import add_yardsticks


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_folder", metavar="RUN", type=Path, help="a run's folder, such as runs/plm")
    parser.add_argument("--windows", metavar="N", type=int, default=64, help="windows of held-out text (%(default)s)")
    parser.add_argument("--batches", metavar="N", type=int, default=16, help="segments for its own loss (%(default)s)")
    add_yardsticks(parser)
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="of what is hidden (%(default)s)")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write everything to a file too")


def run(args: argparse.Namespace) -> int:
    from anyorder.core import RecipeError

    for name in ("windows", "batches"):
        if getattr(args, name) < 1:
            raise RecipeError(f"--{name} {getattr(args, name)}: a number, 1 or more")
    import torch
    from rich.console import Console
    from rich.table import Table

    from anyorder.train.atomic import write_json
    from anyorder.train.evaluate import evaluate
    from anyorder.train.run import load_run
    from anyorder.train.yardsticks import choose_yardsticks, held_out_windows, measure_all

    yardsticks = choose_yardsticks(args.yardsticks)
    _, data, objective = load_run(args.run_folder)
    losses = evaluate(objective, data.valid, batches=args.batches)
    held_out = held_out_windows(data, limit=args.windows, seed=args.seed)
    sizes = torch.from_numpy(data.corpus.tokenizer.piece_bytes)
    measured = measure_all(objective, held_out, piece_bytes=sizes, yardsticks=yardsticks, seed=args.seed)

    print(f"{args.run_folder}: its own loss on held-out text, in nats a target")
    for name, loss in losses.items():
        print(f"  {name:<12} {loss:.4f}")
    table = Table(title=f"{held_out.rows} windows of {held_out.length} held-out tokens")
    for column in ("yardstick", "bits/token", "± s.e.", "bits/byte", "kind", "what the model sees"):
        table.add_column(column, justify="right" if "bit" in column or "±" in column else "left")
    for name, measurement in measured.items():
        score, standing = measurement.headline, measurement.standing
        if score is None:
            table.add_row(name, "-", "-", "-", standing.kind, standing.reason)
        else:
            numbers = (f"{score.bits_per_token:.3f}", f"{score.standard_error:.3f}", f"{score.bits_per_byte:.3f}")
            spread = "" if measurement.spread is None else f"; varies by {measurement.spread:.3f} from sample to sample"
            told = "; ".join(text for text in (standing.sees, standing.reason) if text)
            table.add_row(name, *numbers, standing.kind, told + spread)
    Console().print(table)
    if args.json is not None:
        tree = {name: measurement.to_json() for name, measurement in measured.items()}
        write_json(args.json, {"loss": losses, "yardsticks": tree})
    return 0
