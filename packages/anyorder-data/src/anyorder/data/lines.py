"""Lines of text files, plain or gzipped, with where they stand, so that an error can say so."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from anyorder.core import DataError

_LONGEST = 1 << 20  # bytes of a line that are held at once


@dataclass(frozen=True)
class Line:
    """A line with its end, or a part of a very long one: only the last part has ``ends``."""

    number: int
    text: str
    ends: bool


def read_lines(path: Path, *, whole: bool, advance: Callable[[int], None] | None = None) -> Iterator[Line]:
    """Decode a file line by line in bounded memory.

    Args:
        whole: give every line whole, however long; otherwise lines over a mebibyte come in parts, cut at spaces.
        advance: called with the number of bytes read from the disk since the last call.

    Raises:
        DataError: unreadable, damaged gzip, or bytes that are not UTF-8 (with line and byte offset).
    """
    try:
        with path.open("rb") as raw:
            stream = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
            number, offset, seen, carried = 1, 0, 0, b""
            while True:
                block = stream.readline() if whole else stream.readline(_LONGEST)
                data = carried + block
                if not data:
                    return
                carried = b""
                ends = data.endswith(b"\n") or not block
                if not ends and len(block) == _LONGEST and not whole:
                    data, carried = _split_at_space(data)
                text = _decode(data, path=path, number=number, offset=offset)
                if offset == 0:
                    text = text.removeprefix("\ufeff")
                offset += len(data)
                if advance is not None and raw.tell() != seen:
                    advance(raw.tell() - seen)
                    seen = raw.tell()
                yield Line(number, text, ends)
                number += ends
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path}: the gzip file is damaged or cut short ({error}); fetch it again") from error
    except OSError as error:
        raise DataError(f"{path}: cannot read: {error.strerror or error}") from error


def _split_at_space(data: bytes) -> tuple[bytes, bytes]:
    """Cut part of a long line at its last space, or, if it has none, between two characters."""
    stop = data.rfind(b" ") + 1
    if not stop:
        stop = len(data)
        while stop > len(data) - 4 and data[stop - 1] & 0xC0 == 0x80:
            stop -= 1
        stop -= data[stop - 1] >= 0xC0
    return data[:stop], data[stop:]


def _decode(data: bytes, *, path: Path, number: int, offset: int) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        where = offset + error.start
        raise DataError(
            f"{path}:{number}: byte {data[error.start]:#04x} at offset {where} is not UTF-8; convert the file, for "
            f"example with `iconv -f WINDOWS-1252 -t UTF-8`"
        ) from error
