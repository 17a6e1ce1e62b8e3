"""XLNet's own pretraining data, number for number: made from text, written, and read from the official files."""

from .draws import RecordDraws, SeededDraws, SpanDraws
from .example import read_example, write_example
from .record_rows import RecordRows, record_files
from .records import Record, RecordLayout
from .spans import OfficialSpans
from .text import MarkedText, MarkedTokens, batchify, both_ways
from .tfrecord import RecordFile, write_records
from .write import prepare_records

__all__ = [
    "MarkedText",
    "MarkedTokens",
    "OfficialSpans",
    "Record",
    "RecordDraws",
    "RecordFile",
    "RecordLayout",
    "RecordRows",
    "SeededDraws",
    "SpanDraws",
    "batchify",
    "both_ways",
    "prepare_records",
    "read_example",
    "record_files",
    "write_example",
    "write_records",
]
