"""Attention backends, and the score terms of relative positions and segments."""

from .naive import Naive
from .sdpa import Sdpa
from .segment import SegmentBias
from .transformer_xl import TransformerXLBias

__all__ = ["Naive", "Sdpa", "SegmentBias", "TransformerXLBias"]
