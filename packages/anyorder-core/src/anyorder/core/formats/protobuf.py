"""The wire format of protocol buffers: just enough to read small messages."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class WireError(ValueError):
    """Bytes that are no message."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned integer of 7 bits a byte, the lowest first, and the place after it."""
    value, shift = 0, 0
    while True:
        if at >= len(data) or shift > 63:
            raise WireError("a number is cut short")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Every field of a message in order: its number, and an unsigned integer or, for lengths, the bytes.

    Raises:
        WireError: the message is cut short, or has a field of a kind that no longer exists (groups).
    """
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = varint(data, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise WireError(f"field {number} is of kind {kind}")
        if at + size > len(data):
            raise WireError(f"field {number} is cut short")
        part = data[at : at + size]
        at += size
        if kind == _BYTES:
            yield number, part
        else:
            yield number, struct.unpack("<Q" if size == 8 else "<I", part)[0]


def signed(value: int | bytes) -> int:
    """A field of type int32 or int64, which holds a negative number as its 64-bit complement.

    Raises:
        WireError: the field holds bytes.
    """
    if isinstance(value, bytes):
        raise WireError("a number was expected")
    return value - (1 << 64) if value >= 1 << 63 else value


def message(value: int | bytes) -> bytes:
    """A field that holds a message or text.

    Raises:
        WireError: the field holds a number.
    """
    if isinstance(value, int):
        raise WireError("a message was expected")
    return value
