"""Passages of documents, streamed from a source in bounded memory."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

from anyorder.core import DataError

from .lines import read_lines
from .sources import Source, describe_fields, require
from .text import cut, paragraphs

DocumentBreak = Literal["form_feed", "file", "blank_line"]
DOCUMENT_BREAKS = ("form_feed", "file", "blank_line")
_LONGEST = 1 << 20  # characters of a passage
Advance = Callable[[int], None]


class Passage(NamedTuple):
    """A paragraph, or a part of a very long one; ``first`` where a document begins."""

    text: str
    first: bool


def read_passages(
    source: Source, *, text_field: str, documents: DocumentBreak = "form_feed", advance: Advance | None = None
) -> Iterator[Passage]:
    """The paragraphs of a source, document by document; empty ones are left out.

    Args:
        text_field: field or column of the text in records.
        documents: what ends a document of a text file, beside its end: a form feed; nothing (``"file"``); or a blank
            line, each line being a passage (the format of XLNet's ``data_utils.py``: a sentence a line).
        advance: told how much of ``source.size`` has been read.

    Raises:
        DataError: with file and line.
    """
    if source.kind == "text":
        if documents == "blank_line":
            return _lines_as_passages(source, advance)
        return _text_passages(source, form_feeds=documents == "form_feed", advance=advance)
    return _record_passages(_READERS[source.kind](source, text_field, advance))


def _text_passages(source: Source, *, form_feeds: bool, advance: Advance | None) -> Iterator[Passage]:
    assert source.path is not None
    held: list[str] = []
    size, first = 0, True

    def take() -> Iterator[Passage]:
        nonlocal size, first
        text = "".join(held)
        held.clear()
        size = 0
        if text and not text.isspace():
            for part in cut(text, _LONGEST):
                yield Passage(part, first)
                first = False

    for line in read_lines(source.path, whole=False, advance=advance):
        parts = line.text.split("\f") if form_feeds else [line.text.replace("\f", " ")]
        for number, part in enumerate(parts):
            if number:
                yield from take()
                first = True
            if part.isspace() and line.ends and number == len(parts) - 1:
                if held and not held[-1].endswith("\n"):
                    held.append(part)  # the end of a long line, not a blank one
                else:
                    yield from take()
            elif part:
                held.append(part)
                size += len(part)
                if size > _LONGEST:
                    yield from take()
    yield from take()


def _lines_as_passages(source: Source, advance: Advance | None) -> Iterator[Passage]:
    assert source.path is not None
    first, inside = True, False
    for line in read_lines(source.path, whole=False, advance=advance):
        if not line.text.isspace():
            yield Passage(line.text, first)
            first = False
        elif not inside:
            first = True
        inside = not line.ends


def _record_passages(texts: Iterator[str]) -> Iterator[Passage]:
    for text in texts:
        first = True
        for paragraph in paragraphs(text):
            for part in cut(paragraph, _LONGEST):
                yield Passage(part, first)
                first = False


def _jsonl(source: Source, text_field: str, advance: Advance | None) -> Iterator[str]:
    assert source.path is not None
    for line in read_lines(source.path, whole=True, advance=advance):
        if line.text.isspace():
            continue
        where = f"{source.path}:{line.number}"
        try:
            record = json.loads(line.text)
        except json.JSONDecodeError as error:
            raise DataError(f"{where}: not a JSON object: {error.msg} at column {error.colno}") from error
        if not isinstance(record, dict):
            raise DataError(f"{where}: expected a JSON object with the field {text_field!r}")
        yield _field(record, text_field, where)


def _csv(source: Source, text_field: str, advance: Advance | None) -> Iterator[str]:
    assert source.path is not None
    previous = csv.field_size_limit(1 << 30)
    try:
        lines = (line.text for line in read_lines(source.path, whole=True, advance=advance))
        reader = csv.DictReader(lines, strict=True)
        try:
            _require_field(reader.fieldnames or [], text_field, f"{source.path}:1")
            for record in reader:
                yield _field(record, text_field, f"{source.path}:{reader.line_num}")
        except csv.Error as error:
            raise DataError(f"{source.path}:{reader.reader.line_num}: not CSV: {error}") from error
    finally:
        csv.field_size_limit(previous)


def _parquet(source: Source, text_field: str, advance: Advance | None) -> Iterator[str]:
    parquet = require("pyarrow.parquet", source=str(source.path), extra="parquet")
    try:
        file = parquet.ParquetFile(source.path)
    except Exception as error:
        raise DataError(f"{source.path}: not a Parquet file: {error}") from error
    with file:
        _require_field(file.schema_arrow.names, text_field, str(source.path))
        rows, row = max(file.metadata.num_rows, 1), 0
        for batch in file.iter_batches(batch_size=256, columns=[text_field]):
            for value in batch.column(0).to_pylist():
                row += 1
                yield _field({text_field: value}, text_field, f"{source.path}: row {row}")
            if advance is not None:
                advance(source.size * batch.num_rows // rows)


def _data_set(source: Source, text_field: str, advance: Advance | None) -> Iterator[str]:
    _require_field(source.dataset.column_names, text_field, source.name)
    for row, record in enumerate(source.dataset.select_columns([text_field]), start=1):
        yield _field(record, text_field, f"{source.name}: row {row}")
        if advance is not None:
            advance(1)


_READERS: dict[str, Callable[[Source, str, Advance | None], Iterator[str]]] = {
    "jsonl": _jsonl,
    "csv": _csv,
    "parquet": _parquet,
    "hf": _data_set,
}


def _require_field(fields: Any, text_field: str, where: str) -> None:
    if text_field not in fields:
        raise DataError(
            f"{where}: no field {text_field!r} (there are: {describe_fields(fields)}); name the text's with text_field"
        )


def _field(record: dict[str, Any], text_field: str, where: str) -> str:
    _require_field(record, text_field, where)
    value = record[text_field]
    if not isinstance(value, str):
        raise DataError(f"{where}: field {text_field!r} must be a string, not {type(value).__name__}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise DataError(f"{where}: half of a surrogate pair at character {error.start} is not text") from error
    return value
