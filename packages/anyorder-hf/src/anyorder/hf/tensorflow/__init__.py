"""TensorFlow's checkpoint files (tensor bundles), read without TensorFlow."""

from .bundle import Bundle, TensorEntry
from .crc import crc32c
from .table import read_table

__all__ = ["Bundle", "TensorEntry", "crc32c", "read_table"]
