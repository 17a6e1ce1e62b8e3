"""Checksums and messages of TensorFlow's files, for the packages that read them."""

from .crc32c import crc32c, mask
from .protobuf import WireError, fields, message, signed, varint

__all__ = ["WireError", "crc32c", "fields", "mask", "message", "signed", "varint"]
