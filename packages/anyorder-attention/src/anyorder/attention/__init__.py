"""Attention backends, and the score terms of relative positions and segments."""

from .chunked import Chunked
from .naive import Naive
from .sdpa import Sdpa
from .segment import SegmentBias
from .tiled import Tiled
from .transformer_xl import TransformerXLBias

__all__ = ["Chunked", "Naive", "Sdpa", "SegmentBias", "Tiled", "TransformerXLBias"]
