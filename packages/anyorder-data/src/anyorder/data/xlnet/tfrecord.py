"""TFRecord files, read anywhere and written whole, each record held against its checksums."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from anyorder.core import DataError
from anyorder.core.formats import crc32c, mask

_HEAD, _FOOT = 12, 4  # length and its checksum, and the checksum of the data


class RecordFile:
    """The records of a file by number. The file is mapped, not read: opening it looks at each record's length only.

    Source: TensorFlow ``record_writer.h``: ``uint64 length, masked crc32c of it, data, masked crc32c of data``.

    Raises:
        DataError: not a TFRecord file, cut short, or altered; the message has the record and the byte it begins at.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            size = path.stat().st_size
            self._bytes = np.memmap(path, mode="r") if size else np.zeros(0, dtype=np.uint8)
        except OSError as error:
            raise DataError(f"{path}: cannot read: {error.strerror or error}") from error
        self._starts: list[int] = []
        at = 0
        while at < size:
            at = self._end_of(at, size)

    def _end_of(self, at: int, size: int) -> int:
        number = len(self._starts)
        if at + _HEAD > size:
            raise DataError(f"{self.path}: cut short in record {number}, at byte {at}; fetch the file again")
        head = self._bytes[at : at + _HEAD].tobytes()
        length, stored = struct.unpack("<QI", head)
        if mask(crc32c(head[:8])) != stored:
            what = "not a TFRecord file" if number == 0 else f"damaged at record {number}, byte {at}"
            raise DataError(f"{self.path}: {what}: the checksum of a record's length does not fit")
        end: int = at + _HEAD + length + _FOOT
        if end > size:
            raise DataError(
                f"{self.path}: cut short in record {number}: it ends at byte {end:,} and the file at {size:,}; fetch "
                "the file again"
            )
        self._starts.append(at)
        return end

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, number: int) -> bytes:
        at = self._starts[number]
        (length,) = struct.unpack("<Q", self._bytes[at : at + 8].tobytes())
        begin = at + _HEAD
        data = self._bytes[begin : begin + length]
        (stored,) = struct.unpack("<I", self._bytes[begin + length : begin + length + _FOOT].tobytes())
        if mask(crc32c(data)) != stored:
            raise DataError(
                f"{self.path}: damaged in record {number}, byte {at}: the checksum of its data does not fit"
            )
        return data.tobytes()


def write_records(path: Path, records: Iterable[bytes]) -> int:
    """Write a TFRecord file beside its place and put it there when it is whole; the number of records.

    Raises:
        DataError: the file cannot be written, or is there already.
    """
    if path.exists():
        raise DataError(f"{path}: there is a file of this name already; choose another folder, or remove it yourself")
    beside = path.with_name(path.name + ".part")
    count = 0
    try:
        with beside.open("wb") as file:
            for data in records:
                length = struct.pack("<Q", len(data))
                file.write(length + struct.pack("<I", mask(crc32c(length))))
                file.write(data + struct.pack("<I", mask(crc32c(data))))
                count += 1
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise DataError(f"{path}: cannot write: {error.strerror or error}") from error
    finally:
        beside.unlink(missing_ok=True)
    return count
