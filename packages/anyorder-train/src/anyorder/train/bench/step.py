"""A whole training step: ours, transformers', the floor of matrix products, and the masked LM on the same backbone."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

import torch

from anyorder.data.progress import Progress

from .floor import ProductRecorder, replay
from .footprint import measure, peak_above_start
from .gate import require_agreement
from .harness import SILENT, interleave, ratio
from .workload import Shape, agreement, build_ours, build_peer

__all__ = ["bench_step", "step_peak"]

AGREEMENT = 1e-5
"""Most that loss and gradient may differ, relative to the largest."""


def bench_step(
    *,
    rows: int = 2,
    layers: int = 12,
    precision: str = "fp32",
    attention: str = "tiled",
    dropout: float = 0.1,
    rounds: int = 5,
    memory: bool = True,
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Time a step of XLNet-Base's shape and its peers, and measure the peak memory of each in its own process.

    Args:
        rows, layers: batch size, and layers of the backbone (12 is Base; fewer where memory is short).
        precision: ``fp32``, or ``bf16`` autocast for all.
        attention: our backend.
        dropout: of hidden states and attention weights, for all.
        rounds: counted rounds, each running every subject once.
        memory: also measure peaks.

    Raises:
        DisagreementError: ours and transformers disagree on loss or gradient.
    """
    shape = Shape(rows=rows, layers=layers, dropout=dropout)
    difference = require_agreement("our step and transformers'", agreement(shape, attention=attention), limit=AGREEMENT)
    ours = build_ours(shape, attention=attention, precision=precision)
    peer = build_peer(shape, precision=precision)
    masked = build_ours(shape, attention=attention, precision=precision, objective="mlm")
    ours.step()  # gradients and optimiser states exist from here on
    with ProductRecorder() as recorder:
        ours.step()
    floor, flops = replay(recorder.products)
    timings = interleave(
        {"ours": ours.step, "transformers": peer.step, "floor": floor, "masked LM": masked.step},
        rounds=rounds,
        what="training step",
        progress=progress,
    )
    result: dict[str, Any] = {
        "bench": "step",
        "settings": asdict(shape) | {"precision": precision, "attention": attention},
        "timings": {name: timing.summary() for name, timing in timings.items()},
        "ratios": {
            "transformers / ours": ratio(timings["transformers"], timings["ours"]),
            "floor / ours": ratio(timings["floor"], timings["ours"]),
            "ours / masked LM": ratio(timings["ours"], timings["masked LM"]),
        },
        "gigaflops": flops / 1e9,
        "agreement": difference,
    }
    if memory:
        given = {
            "rows": rows,
            "layers": layers,
            "precision": precision,
            "attention": attention,
            "dropout": dropout,
        }
        peaks = {name: measure(__name__, given | {"subject": name})["peak"] for name in ("ours", "transformers")}
        result["peak_activation_bytes"] = peaks
        result["ratios"]["ours / transformers, peak activations"] = peaks["ours"] / peaks["transformers"]
    return result


def step_peak(*, subject: str, rows: int, layers: int, precision: str, attention: str, dropout: float) -> int:
    """Bytes that a forward and backward pass adds to what stands between steps (weights, gradients, states)."""
    shape = Shape(rows=rows, layers=layers, dropout=dropout)
    if subject == "ours":
        ours = build_ours(shape, attention=attention, precision=precision)
        ours.step()
        return peak_above_start(lambda: ours.loss().backward())
    peer = build_peer(shape, precision=precision)
    peer.step()
    return peak_above_start(lambda: peer.loss().backward())


if __name__ == "__main__":
    torch.set_num_threads(2)
    print(json.dumps({"peak": step_peak(**json.loads(sys.argv[1]))}))
