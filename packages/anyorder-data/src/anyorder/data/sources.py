"""Where documents come from: text, JSON lines, CSV and Parquet files, folders, Hugging Face data sets."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyorder.core import DataError

KINDS = {".txt": "text", ".text": "text", ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".parquet": "parquet"}
_PACKED = ("text", "jsonl", "csv")
_READABLE = ".txt, .jsonl, .csv (each also with .gz), .parquet, a folder of these, or hf:NAME"


@dataclass(frozen=True, kw_only=True)
class Source:
    """One file, or one data set of the ``datasets`` library.

    Attributes:
        name: as it stands in the manifest: never an absolute path, so that a corpus is the same wherever it was made.
        kind: ``text``, ``jsonl``, ``csv``, ``parquet`` or ``hf``.
        path: the file; None for a data set.
        size: bytes on the disk, for the progress bar; rows for a data set.
    """

    name: str
    kind: str
    path: Path | None
    size: int
    dataset: Any = None

    def fingerprint(self) -> str:
        """Hash of the content."""
        if self.path is None:
            return f"datasets:{self.dataset._fingerprint}"
        digest = hashlib.sha256()
        with self.path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        return digest.hexdigest()


def find_sources(sources: str | Path | Iterable[str | Path]) -> list[Source]:
    """Resolve files, folders (all readable files in them, sorted by path) and ``hf:NAME[:CONFIG[:SPLIT]]``.

    Raises:
        DataError: a source that is missing, of an unknown kind, or a folder with nothing to read.
    """
    if isinstance(sources, (str, Path)):
        sources = [sources]
    found: list[Source] = []
    for source in sources:
        if isinstance(source, str) and source.startswith("hf:"):
            found.append(_data_set(source))
            continue
        path = Path(source)
        if path.is_dir():
            inside = sorted(
                file
                for file in path.rglob("*")
                if file.is_file() and _kind(file) and not any(p.startswith(".") for p in file.relative_to(path).parts)
            )
            if not inside:
                raise DataError(f"{path}: the folder holds nothing to read; readable: {_READABLE}")
            root = path.resolve().name
            found += [_file(file, name=f"{root}/{file.relative_to(path).as_posix()}") for file in inside]
        elif path.is_file():
            if not _kind(path):
                raise DataError(f"{path}: unknown kind of file; readable: {_READABLE}")
            found.append(_file(path, name=path.name))
        else:
            raise DataError(f"{path}: no such file or folder; readable: {_READABLE}")
    if not found:
        raise DataError(f"no sources given; readable: {_READABLE}")
    return found


def _kind(path: Path) -> str | None:
    if path.suffix == ".gz":
        kind = KINDS.get(path.with_suffix("").suffix.lower())
        return kind if kind in _PACKED else None
    return KINDS.get(path.suffix.lower())


def _file(path: Path, *, name: str) -> Source:
    kind = _kind(path)
    assert kind is not None
    return Source(name=name, kind=kind, path=path, size=path.stat().st_size)


def _data_set(source: str) -> Source:
    name, _, rest = source.removeprefix("hf:").partition(":")
    config, _, split = rest.partition(":")
    datasets = require("datasets", source=source, extra="datasets")
    try:
        if Path(name, "dataset_info.json").is_file():
            loaded = datasets.load_from_disk(name)
        else:
            loaded = datasets.load_dataset(name, config or None, split=split or "train")
    except Exception as error:
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise DataError(
            f"{source}: cannot load the data set: {reason}; a data set that is not in the local cache needs the "
            "network (and HF_HUB_OFFLINE unset); or download its files and pass those; form: hf:NAME[:CONFIG[:SPLIT]]"
        ) from error
    shown = name if not Path(name).is_absolute() else Path(name).name
    return Source(
        name=":".join(["hf", shown, *filter(None, [config, split])]),
        kind="hf",
        path=None,
        size=len(loaded),
        dataset=loaded,
    )


def require(module: str, *, source: str, extra: str) -> Any:
    """Import an optional library, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise DataError(f"{source}: needs {module}; pip install 'anyorder-data[{extra}]'") from error


def describe_fields(fields: Sequence[str]) -> str:
    return ", ".join(repr(field) for field in sorted(fields)) or "none"
