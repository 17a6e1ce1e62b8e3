"""Labelled texts from a file."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyorder.core import DataError, did_you_mean

__all__ = ["Example", "read_examples"]


@dataclass(frozen=True, kw_only=True)
class Example:
    """A text or a pair of texts, and its class by name."""

    text: str
    pair: str | None
    label: str


def read_examples(path: Path, *, text: str, label: str, pair: str | None = None) -> list[Example]:
    """Read ``.jsonl`` (an object a line), ``.csv`` or ``.tsv`` (names in the first line), ``.gz`` or not.

    Args:
        path: the file.
        text, pair, label: names of the fields; ``pair`` is None for single texts.

    Raises:
        DataError: no such file, an unknown kind, or a line without the fields, which the error names.
    """
    kind = path.suffixes[-2] if path.suffix == ".gz" and len(path.suffixes) > 1 else path.suffix
    if kind not in (".jsonl", ".csv", ".tsv"):
        raise DataError(f"{path}: labelled texts come as .jsonl, .csv or .tsv, each also with .gz")
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        content = raw.decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
    rows = _json_lines(content, path) if kind == ".jsonl" else _table(content, "," if kind == ".csv" else "\t")
    examples = []
    for number, row in rows:
        where = f"{path}:{number}"
        examples.append(
            Example(
                text=_text(row, text, where),
                pair=None if pair is None else _text(row, pair, where),
                label=str(_field(row, label, where)),
            )
        )
    if not examples:
        raise DataError(f"{path}: there is no example in it")
    return examples


def _json_lines(content: str, path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(content.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"{path}:{number}: not JSON ({error})") from None
        if not isinstance(row, dict):
            raise DataError(f"{path}:{number}: an object with fields is wanted, not {type(row).__name__}")
        yield number, row


def _table(content: str, delimiter: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    reader = csv.DictReader(io.StringIO(content, newline=""), delimiter=delimiter)
    for row in reader:
        yield reader.line_num, {key: value for key, value in row.items() if value is not None}


def _field(row: Mapping[str, Any], name: str, where: str) -> Any:
    if row.get(name) is None:
        found = ", ".join(map(str, row))
        raise DataError(f"{where}: no field {name!r} (there are {found}){did_you_mean(name, [str(k) for k in row])}")
    return row[name]


def _text(row: Mapping[str, Any], name: str, where: str) -> str:
    value = _field(row, name, where)
    if not isinstance(value, str):
        raise DataError(f"{where}: the field {name!r} is {value!r} and should be a text")
    return value
