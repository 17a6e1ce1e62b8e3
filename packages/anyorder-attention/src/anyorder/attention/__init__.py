"""Attention backends, and the score terms of relative positions and segments."""

from .chunked import Chunked
from .flex import Flex
from .naive import Naive
from .sdpa import Sdpa
from .segment import SegmentBias
from .tiled import Tiled
from .transformer_xl import TransformerXLBias
from .xformers import Xformers

__all__ = ["Chunked", "Flex", "Naive", "Sdpa", "SegmentBias", "Tiled", "TransformerXLBias", "Xformers"]
