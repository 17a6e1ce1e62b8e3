"""Benchmarks against real peers, interleaved in one process, and refused where ours and theirs do not agree."""

from .attention import bench_attention, bench_memory
from .decode import bench_decode
from .gate import DisagreementError
from .report import as_text, save, where
from .sampling import bench_sampling
from .step import bench_step
from .track import track

__all__ = [
    "DisagreementError",
    "as_text",
    "bench_attention",
    "bench_decode",
    "bench_memory",
    "bench_sampling",
    "bench_step",
    "save",
    "track",
    "where",
]
