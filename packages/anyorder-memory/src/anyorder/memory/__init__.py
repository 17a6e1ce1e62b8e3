"""Memories: what a model keeps from segment to segment."""

from .none import NoMemory
from .segment import SegmentMemory

__all__ = ["NoMemory", "SegmentMemory"]
