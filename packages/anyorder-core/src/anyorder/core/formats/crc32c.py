"""CRC-32C of large arrays in NumPy.

A checksum is linear over bits, so words may be folded together in any order if each is moved past the bytes that
follow it. Here a row of many words is folded onto the next row, over and over, and the last row is folded in halves.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]

_POLYNOMIAL = 0x82F63B78  # Castagnoli's, bits reversed
_LANES = 1 << 13  # words of a row: few enough to stay in the cache
_MASK_DELTA = 0xA282EAD8


def mask(checksum: int) -> int:
    """The form in which a checksum is stored beside what it covers (TensorFlow ``crc32c.h`` ``Mask``)."""
    rotated = ((checksum >> 15) | (checksum << 17)) & 0xFFFFFFFF
    return (rotated + _MASK_DELTA) & 0xFFFFFFFF


def crc32c(data: bytes | NDArray[np.uint8]) -> int:
    """CRC-32C (RFC 3720, appendix B.4)."""
    array = np.frombuffer(data, dtype=np.uint8)
    state, row = 0xFFFFFFFF, _LANES * 4
    whole = len(array) // row * row
    if whole:
        state = _fold(array[:whole].view("<u4").reshape(-1, _LANES), state)
    return _bytewise(state, array[whole:].tobytes()) ^ 0xFFFFFFFF


def _fold(rows: Words, state: int) -> int:
    """The state after all rows."""
    folded = rows[0].copy()
    folded[0] ^= np.uint32(state)
    low_table, high_table = _past_zeros(_LANES * 4)
    low, high = np.empty(_LANES, dtype=np.intp), np.empty(_LANES, dtype=np.intp)
    other = np.empty_like(folded)
    for row in rows[1:]:
        np.bitwise_and(folded, 0xFFFF, out=low)
        np.right_shift(folded, 16, out=high)
        np.take(low_table, low, out=folded, mode="clip")  # no index is out of range: "clip" saves a buffer
        np.take(high_table, high, out=other, mode="clip")
        folded ^= other
        folded ^= row
    size = _LANES
    while size > 1:  # the first half of what is left, moved past the second
        size //= 2
        low_table, high_table = _past_zeros(size * 4)
        first, second = folded[:size], folded[size:]
        folded = low_table[first & 0xFFFF] ^ high_table[first >> 16] ^ second
    return _apply(_zeros(4), int(folded[0]))


def _bytewise(state: int, data: bytes) -> int:
    table = _byte_table()
    for byte in data:
        state = table[(state ^ byte) & 0xFF] ^ (state >> 8)
    return state


@cache
def _byte_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return tuple(table)


@cache
def _zeros(count: int) -> tuple[int, ...]:
    """What ``count`` zero bytes make of each bit of a state."""
    if count == 1:
        return tuple(_bytewise(1 << bit, b"\0") for bit in range(32))
    half = _zeros(count // 2)
    assert count % 2 == 0, count
    return tuple(_apply(half, image) for image in half)


def _apply(images: tuple[int, ...], state: int) -> int:
    result = 0
    for bit, image in enumerate(images):
        if state >> bit & 1:
            result ^= image
    return result


@cache
def _past_zeros(count: int) -> tuple[Words, Words]:
    """``_zeros`` as two tables, of the low and the high half of a state."""
    images = _zeros(count)
    return _table(images[:16]), _table(images[16:])


def _table(images: tuple[int, ...]) -> Words:
    table = np.zeros(1, dtype=np.uint32)
    for image in images:
        table = np.concatenate([table, table ^ np.uint32(image)])
    return table
