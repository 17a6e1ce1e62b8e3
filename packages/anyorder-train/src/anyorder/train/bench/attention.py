"""Attention backends alone: time of forward and backward, peak memory, and its growth with the length."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from anyorder.core import AttentionRequest, DistanceTerm, ScoreBias, Slots, TokenBatch, Visibility, find

from .footprint import measure, peak_above_start
from .harness import interleave, ratio

__all__ = ["bench_attention", "bench_memory", "pass_peak"]

_HEADS, _WIDTH = 12, 64


def _pass(backend: str, length: int) -> Callable[[], None]:
    """Forward and backward of one permuted row with relative positions."""
    generator = torch.Generator().manual_seed(0)

    def leaf(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).requires_grad_()

    query, key, value = (leaf(1, _HEADS, length, _WIDTH) for _ in range(3))
    codes = leaf(1, _HEADS, _WIDTH, 2 * length)
    batch = TokenBatch.of(torch.zeros(1, length, dtype=torch.long))
    slots = Slots.of_tokens(batch, torch.randperm(length, generator=generator)[None])
    visibility = Visibility.of(slots, slots)
    attend = find("attention", backend)()

    def run() -> None:
        term = DistanceTerm(
            query=query, codes=codes, reader=slots.position, key=slots.position, high=length, contiguous=True
        )
        out = attend(query, key, value, visibility=visibility, bias=ScoreBias((term,)), scale=_WIDTH**-0.5)
        out.sum().backward()
        for tensor in (query, key, value, codes):
            tensor.grad = None

    return run


def _serving(backends: Sequence[str]) -> list[str]:
    request = AttentionRequest(
        device=torch.device("cpu"),
        dtype=torch.float32,
        training=True,
        bias=True,
        bias_grad=True,
        dropout=0.0,
        head_dim=_WIDTH,
    )
    return [name for name in backends if find("attention", name)().refuse(request) is None]


def bench_attention(
    *,
    length: int = 4096,
    backends: Sequence[str] = ("naive", "sdpa", "chunked", "tiled"),
    rounds: int = 3,
    tick: Callable[[str], None] = lambda name: None,
) -> dict[str, Any]:
    """Every backend that trains here, against naive, at one length."""
    names = _serving(backends)
    timings = interleave({name: _pass(name, length) for name in names}, rounds=rounds, tick=tick)
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
    tick: Callable[[str], None] = lambda name: None,
) -> dict[str, Any]:
    """Peak memory of a forward and backward pass as the length grows."""
    peaks: dict[str, int] = {}
    for length in lengths:
        peaks[str(length)] = measure(__name__, {"backend": backend, "length": length})["peak"]
        tick(str(length))
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
