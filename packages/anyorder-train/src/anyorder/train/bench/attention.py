"""Attention backends alone: time of forward and backward, peak memory, and its growth with the length."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from anyorder.core import (
    AttentionBackend,
    DistanceTerm,
    ScoreBias,
    Slots,
    TokenBatch,
    Visibility,
    find,
)
from anyorder.data.progress import Progress

from ..capabilities import uses
from .footprint import measure, peak_above_start
from .gate import require_agreement
from .harness import SILENT, interleave, ratio

__all__ = ["bench_attention", "bench_memory", "pass_peak"]

_HEADS, _WIDTH = 12, 64
AGREEMENT = 1e-4
"""Most that outputs and gradients may differ, relative to the largest."""


def _inputs(length: int) -> tuple[list[Tensor], Callable[[Tensor], dict[str, Any]]]:
    """Query, key, value and distance codes of one permuted row, and the keywords of a call."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(1, _HEADS, length, _WIDTH)] * 3 + [(1, _HEADS, _WIDTH, 2 * length)]
    leaves = [torch.randn(shape, generator=generator).requires_grad_() for shape in shapes]
    batch = TokenBatch.of(torch.zeros(1, length, dtype=torch.long))
    slots = Slots.of_tokens(batch, torch.randperm(length, generator=generator)[None])
    visibility = Visibility.of(slots, slots)

    def call(codes: Tensor) -> dict[str, Any]:
        term = DistanceTerm(
            query=leaves[0], codes=codes, reader=slots.position, key=slots.position, high=length, contiguous=True
        )
        return {"visibility": visibility, "bias": ScoreBias((term,)), "scale": _WIDTH**-0.5}

    return leaves, call


def _backend(name: str) -> AttentionBackend:
    """``tiled`` keeps to linear memory here, which is what a long row is for."""
    made: AttentionBackend = find("attention", name)(**({"recompute": True, "smallest": 0} if name == "tiled" else {}))
    return made


def _pass(backend: str, length: int) -> Callable[[], None]:
    """Forward and backward of one permuted row with relative positions."""
    leaves, call = _inputs(length)
    attend = _backend(backend)

    def run() -> None:
        attend(*leaves[:3], **call(leaves[3])).sum().backward()
        for tensor in leaves:
            tensor.grad = None

    return run


def disagreement(backend: str) -> float:
    """Largest difference of the output and of any gradient from naive, relative to the largest, in float32."""
    found = []
    for name in (backend, "naive"):
        leaves, call = _inputs(96)
        out = _backend(name)(*leaves[:3], **call(leaves[3]))
        out.square().sum().backward()
        found.append([out.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)])
    ours, theirs = found
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(ours, theirs, strict=True))


def _serving(backends: Sequence[str]) -> list[str]:
    request = uses(torch.device("cpu"))["train fp32"]
    return [name for name in backends if find("attention", name)().refuse(request) is None]


def bench_attention(
    *,
    length: int = 4096,
    backends: Sequence[str] = ("naive", "sdpa", "chunked", "tiled"),
    rounds: int = 3,
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Every backend that trains here, against naive, at one length."""
    names = _serving(backends)
    for name in names:
        require_agreement(f"{name} and naive", disagreement(name), limit=AGREEMENT)
    passes = {name: _pass(name, length) for name in names}
    timings = interleave(passes, rounds=rounds, what="attention", progress=progress)
    peaks = {name: measure(__name__, {"backend": name, "length": length})["peak"] for name in names}
    return {
        "bench": "attention",
        "settings": {"length": length, "heads": _HEADS, "head_dim": _WIDTH},
        "timings": {name: timing.summary() for name, timing in timings.items()},
        "peak_bytes": peaks,
        "ratios": {f"{name} / naive, time": ratio(timings[name], timings["naive"]) for name in names}
        | {f"{name} / naive, peak memory": peaks[name] / peaks["naive"] for name in names},
    }


def bench_memory(
    *,
    backend: str = "chunked",
    lengths: Sequence[int] = (1024, 2048, 4096, 8192),
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Peak memory of a forward and backward pass as the length grows."""
    require_agreement(f"{backend} and naive", disagreement(backend), limit=AGREEMENT)
    peaks: dict[str, int] = {}
    with progress.start("peak memory", len(lengths)):
        for length in lengths:
            peaks[str(length)] = measure(__name__, {"backend": backend, "length": length})["peak"]
            progress.advance(1)
    first, last = str(lengths[0]), str(lengths[-1])
    return {
        "bench": "memory",
        "settings": {"backend": backend, "heads": _HEADS, "head_dim": _WIDTH},
        "peak_bytes": peaks,
        "ratios": {
            f"{last} / {first}, length": lengths[-1] / lengths[0],
            f"{last} / {first}, peak memory": peaks[last] / peaks[first],
        },
    }


def pass_peak(*, backend: str, length: int) -> int:
    run = _pass(backend, length)
    _pass(backend, 64)()
    return peak_above_start(run)


if __name__ == "__main__":
    torch.set_num_threads(2)
    print(json.dumps({"peak": pass_peak(**json.loads(sys.argv[1]))}))
