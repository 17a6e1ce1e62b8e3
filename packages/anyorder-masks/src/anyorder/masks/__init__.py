"""Mask builders: from an order to the content and query streams a Transformer reads."""

from .block_copy import BlockCopy
from .corruption import Corruption
from .in_place import InPlace
from .mpnet import MPNet
from .shift import Shift
from .targets import Targets, take_targets
from .two_stream import TwoStream

__all__ = ["BlockCopy", "Corruption", "InPlace", "MPNet", "Shift", "Targets", "TwoStream", "take_targets"]
