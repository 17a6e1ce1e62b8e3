"""Mask builders: from an order to the content and query streams a Transformer reads."""

from .in_place import InPlace
from .shift import Shift
from .targets import Targets, take_targets
from .two_stream import TwoStream

__all__ = ["InPlace", "Shift", "Targets", "TwoStream", "take_targets"]
