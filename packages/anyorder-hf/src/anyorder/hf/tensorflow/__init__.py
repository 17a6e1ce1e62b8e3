"""TensorFlow's checkpoint files (tensor bundles), read without TensorFlow."""

from .bundle import Bundle, TensorEntry
from .table import read_table

__all__ = ["Bundle", "TensorEntry", "read_table"]
