"""``tf.train.Example`` messages of integers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from anyorder.core.formats import WireError, fields, message

Features = dict[str, NDArray[np.int64]]
_INT64_LIST = 3  # of Feature; 1 is a list of bytes and 2 of floats


def read_example(data: bytes) -> Features:
    """The integer features of a message by name; others are passed over.

    Source: TensorFlow ``example.proto``, ``feature.proto``.

    Raises:
        WireError: the bytes are no such message.
    """
    found: Features = {}
    for _, features in _numbered(data, 1):
        for _, entry in _numbered(features, 1):
            name, feature = b"", b""
            for number, value in fields(entry):
                if number == 1:
                    name = message(value)
                elif number == 2:
                    feature = message(value)
            for _, values in _numbered(feature, _INT64_LIST):
                try:
                    found[name.decode()] = _integers(values)
                except UnicodeDecodeError:
                    raise WireError("a name is not UTF-8") from None
    return found


def write_example(features: Mapping[str, NDArray[np.int64]]) -> bytes:
    """A message of integer features, in their order."""
    entries = b""
    for name, values in features.items():
        packed = b"".join(_varint(int(value)) for value in values)
        feature = _part(_INT64_LIST, _part(1, packed) if len(values) else b"")
        entries += _part(1, _part(1, name.encode()) + _part(2, feature))
    return _part(1, entries)


def _numbered(data: bytes, number: int) -> list[tuple[int, bytes]]:
    return [(found, message(value)) for found, value in fields(data) if found == number]


def _integers(data: bytes) -> NDArray[np.int64]:
    """An ``Int64List``, packed or not."""
    parts: list[NDArray[np.int64]] = []
    for number, value in fields(data):
        if number != 1:
            continue
        if isinstance(value, bytes):
            parts.append(_varints(np.frombuffer(value, dtype=np.uint8)))
        else:
            parts.append(np.array([value], dtype=np.uint64).view(np.int64))
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def _varints(data: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Integers of 7 bits a byte, the lowest first, all at once."""
    if not len(data):
        return np.zeros(0, dtype=np.int64)
    last = np.flatnonzero(data < 0x80)
    if not len(last) or last[-1] != len(data) - 1:
        raise WireError("a number is cut short")
    first = np.concatenate([[0], last[:-1] + 1])
    size = last - first + 1
    if size.max() > 10:
        raise WireError("a number is longer than 64 bits")
    shift = np.arange(len(data)) - np.repeat(first, size)
    bits = (data & 0x7F).astype(np.uint64) << (7 * shift).astype(np.uint64)
    return np.bitwise_or.reduceat(bits, first).view(np.int64)


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _part(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data
