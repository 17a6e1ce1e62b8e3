"""Sorted tables of keys and values: the file format of LevelDB, in which TensorFlow keeps a checkpoint's index."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from anyorder.core import CheckpointError
from anyorder.core.formats import WireError, crc32c, mask, varint

_MAGIC = 0xDB4775248B80FB57
_FOOTER = 48
_TRAILER = 5  # one byte of compression, four of checksum
_PLAIN, _SNAPPY = 0, 1


def read_table(data: bytes, *, name: str) -> dict[bytes, bytes]:
    """Every entry of a table (LevelDB ``doc/table_format.md``), each block's checksum verified.

    Args:
        data: the file.
        name: what to call it in errors.

    Raises:
        CheckpointError: not a table, damaged, or with compressed blocks.
    """
    if len(data) < _FOOTER:
        raise CheckpointError(f"{name} is no index of a checkpoint: it has {len(data)} bytes, and its end alone has 48")
    (magic,) = struct.unpack("<Q", data[-8:])
    if magic != _MAGIC:
        raise CheckpointError(f"{name} is no index of a checkpoint, or was cut short: it does not end in the mark")
    try:
        footer = data[-_FOOTER:]
        _, at = _handle(footer, 0)  # of meta data, which checkpoints have none of
        index, _ = _handle(footer, at)
        entries: dict[bytes, bytes] = {}
        for _, pointer in _entries(_block(data, index, name=name)):
            place, _ = _handle(pointer, 0)
            entries.update(_entries(_block(data, place, name=name)))
    except (WireError, struct.error, IndexError) as error:
        raise CheckpointError(f"{name} is damaged: {error}") from None
    return entries


def _handle(data: bytes, at: int) -> tuple[tuple[int, int], int]:
    offset, at = varint(data, at)
    size, at = varint(data, at)
    return (offset, size), at


def _block(data: bytes, place: tuple[int, int], *, name: str) -> bytes:
    offset, size = place
    end = offset + size
    if end + _TRAILER > len(data) - _FOOTER:
        raise CheckpointError(f"{name} is damaged: a block at byte {offset} reaches past the end of the file")
    (stored,) = struct.unpack("<I", data[end + 1 : end + _TRAILER])
    if mask(crc32c(data[offset : end + 1])) != stored:
        raise CheckpointError(f"{name} is damaged: the checksum of its block at byte {offset} does not fit")
    kind = data[end]
    if kind != _PLAIN:
        what = "compressed with Snappy" if kind == _SNAPPY else f"compressed in an unknown way ({kind})"
        raise CheckpointError(
            f"{name} has a block that is {what}, which is not read here and which tf.train.Saver does not write; save "
            "the checkpoint again with TensorFlow"
        )
    return data[offset:end]


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys, each stored as its difference from the one before it, and values."""
    (restarts,) = struct.unpack("<I", block[-4:])
    end = len(block) - 4 * (restarts + 1)
    if end < 0:
        raise WireError("a block is shorter than its own list of restarts")
    key, at = b"", 0
    while at < end:
        shared, at = varint(block, at)
        own, at = varint(block, at)
        size, at = varint(block, at)
        if shared > len(key) or at + own + size > end:
            raise WireError("an entry does not fit its block")
        key = key[:shared] + block[at : at + own]
        yield key, block[at + own : at + own + size]
        at += own + size
