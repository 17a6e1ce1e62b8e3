"""Tensor bundles: what ``tf.train.Saver`` writes as ``NAME.index`` and ``NAME.data-00000-of-00001``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from anyorder.core import CheckpointError, did_you_mean
from anyorder.core.formats import WireError, crc32c, fields, mask, message, signed

from .table import read_table

_DTYPES: dict[int, tuple[torch.dtype, str]] = {
    1: (torch.float32, "<f4"),
    2: (torch.float64, "<f8"),
    3: (torch.int32, "<i4"),
    4: (torch.uint8, "u1"),
    5: (torch.int16, "<i2"),
    6: (torch.int8, "i1"),
    9: (torch.int64, "<i8"),
    10: (torch.bool, "?"),
    14: (torch.bfloat16, "<i2"),
    19: (torch.float16, "<f2"),
}
"""TensorFlow's numbers for types (``types.proto``); bfloat16 is read as its bits."""
_STRING = 7
_BIG_ENDIAN = 1
_LATEST = 1  # the format version that a reader must know (``tensor_bundle.h`` kTensorBundleVersion)


@dataclass(frozen=True, kw_only=True)
class TensorEntry:
    """Where a tensor lies (``tensor_bundle.proto`` ``BundleEntryProto``).

    Attributes:
        dtype: TensorFlow's number of the type.
        shape: sizes.
        shard, offset, size: of its bytes.
        checksum: CRC-32C of the bytes, masked.
        sliced: it is stored in parts.
    """

    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    checksum: int
    sliced: bool

    @classmethod
    def parse(cls, data: bytes) -> TensorEntry:
        found: dict[int, int] = {}
        shape: tuple[int, ...] = ()
        sliced = False
        for number, value in fields(data):
            if number == 2:
                shape = _shape(message(value))
            elif number == 7:
                sliced = True
            else:
                found[number] = signed(value)
        return cls(
            dtype=found.get(1, 0),
            shape=shape,
            shard=found.get(3, 0),
            offset=found.get(4, 0),
            size=found.get(5, 0),
            checksum=found.get(6, 0),
            sliced=sliced,
        )


def _shape(data: bytes) -> tuple[int, ...]:
    sizes = []
    for number, value in fields(data):
        if number == 2:
            sizes.append(next((signed(size) for n, size in fields(message(value)) if n == 1), 0))
        elif number == 3 and value:
            raise WireError("a tensor has no rank")
    return tuple(sizes)


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A checkpoint's index, and its tensors on demand. No code of the checkpoint's graph is ever run.

    Attributes:
        prefix: path of the checkpoint without ``.index``.
        entries: by variable name.
        shards: number of data files.
    """

    prefix: Path
    entries: Mapping[str, TensorEntry]
    shards: int

    @classmethod
    def open(cls, prefix: Path) -> Bundle:
        """Read the index, and see that the data files are there and long enough.

        Raises:
            CheckpointError: a file is missing, damaged, or of a kind that is not read.
        """
        path = prefix.with_name(f"{prefix.name}.index")
        try:
            table = read_table(path.read_bytes(), name=str(path))
        except OSError as error:
            raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
        try:
            shards = _read_header(table.pop(b"", b""), path)
            entries = {key.decode(): TensorEntry.parse(value) for key, value in table.items()}
        except (WireError, UnicodeDecodeError) as error:
            raise CheckpointError(f"{path} is damaged: {error}") from None
        bundle = cls(prefix=prefix, entries=entries, shards=shards)
        bundle._require_data()
        return bundle

    def read(self, name: str) -> Tensor:
        """One tensor, its checksum verified.

        Raises:
            CheckpointError: there is no such tensor, it is damaged, or of a kind that is not read.
        """
        entry = self.entries.get(name)
        if entry is None:
            raise CheckpointError(f"{self.prefix} has no variable {name!r}{did_you_mean(name, self.entries)}")
        if entry.sliced or entry.dtype not in _DTYPES:
            what = "in slices" if entry.sliced else "as text" if entry.dtype == _STRING else f"as type {entry.dtype}"
            raise CheckpointError(f"{self.prefix}: {name} is stored {what}, which is not read here")
        dtype, form = _DTYPES[entry.dtype]
        if math.prod(entry.shape) * np.dtype(form).itemsize != entry.size:
            raise CheckpointError(f"{self.prefix}: {name} has shape {list(entry.shape)} and {entry.size} bytes")
        path = self._shard(entry.shard)
        data = np.fromfile(path, dtype=np.uint8, count=entry.size, offset=entry.offset)
        if len(data) < entry.size:
            raise CheckpointError(f"{path} is cut short: {name} ends at byte {entry.offset + entry.size}")
        if mask(crc32c(data)) != entry.checksum:
            raise CheckpointError(
                f"{path} is damaged: the checksum of {name} (bytes {entry.offset} to {entry.offset + entry.size}) does "
                "not fit; fetch the file again"
            )
        tensor = torch.from_numpy(data.view(form).reshape(entry.shape))
        return tensor.view(torch.bfloat16) if dtype == torch.bfloat16 else tensor

    def _shard(self, number: int) -> Path:
        return self.prefix.with_name(f"{self.prefix.name}.data-{number:05d}-of-{self.shards:05d}")

    def _require_data(self) -> None:
        ends = dict.fromkeys(range(self.shards), 0)
        for entry in self.entries.values():
            if entry.shard not in ends or entry.offset < 0 or entry.size < 0:
                raise CheckpointError(f"{self.prefix}.index is damaged: a tensor lies outside of its files")
            ends[entry.shard] = max(ends[entry.shard], entry.offset + entry.size)
        for number, end in ends.items():
            path = self._shard(number)
            if not path.is_file():
                raise CheckpointError(f"{path} is missing; a checkpoint is its index and all of its data files")
            if path.stat().st_size < end:
                raise CheckpointError(f"{path} is cut short: {path.stat().st_size} bytes, and the index names {end}")


def _read_header(data: bytes, path: Path) -> int:
    """Number of data files (``BundleHeaderProto``)."""
    shards, endianness, needs = 0, 0, 0
    for number, value in fields(data):
        if number == 1:
            shards = signed(value)
        elif number == 2:
            endianness = signed(value)
        elif number == 3:
            needs = next((signed(v) for n, v in fields(message(value)) if n == 2), 0)
    if shards < 1:
        raise CheckpointError(f"{path} is a table but no checkpoint: it has no header")
    if endianness == _BIG_ENDIAN:
        raise CheckpointError(f"{path} was written by a big-endian machine, which is not read here")
    if needs > _LATEST:
        raise CheckpointError(f"{path} needs a reader of format version {needs}; this one knows {_LATEST}")
    return shards
