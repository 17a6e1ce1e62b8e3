"""Benchmarks against real peers, interleaved in one process, and refused where ours and theirs do not agree."""

from .attention import bench_attention, bench_memory
from .report import as_text, save, where
from .sampling import bench_sampling
from .step import bench_step

__all__ = ["as_text", "bench_attention", "bench_memory", "bench_sampling", "bench_step", "save", "where"]
