"""Pretraining data of XLNet, from text files to TFRecord files that the official code reads too."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from anyorder.core import DataError

from ..tokenizer import Tokenizer
from .draws import SeededDraws
from .example import write_example
from .records import Record, RecordLayout
from .text import MarkedTokens
from .tfrecord import write_records


def prepare_records(
    paths: Sequence[Path],
    folder: Path,
    *,
    tokenizer: Tokenizer,
    layout: RecordLayout,
    seed: int,
    task: int = 0,
    pass_id: int = 0,
    eod: bool = True,
) -> Path:
    """Write one pass over the files of one task, as ``data_utils.py`` ``create_data`` does; its record_info file.

    The draws are the official ones, given that Python's generator starts from ``seed`` (officially it is unseeded).

    Raises:
        DataError: too little text, or the files are there already.
    """
    draws = SeededDraws(pairs=seed, spans=100 * task + pass_id)
    text = MarkedTokens.read_all(paths, tokenizer, order=draws.shards(len(paths)), eod=eod)
    records = layout.records(text, vocab=tokenizer.vocab, starts_word=tokenizer.starts_word, draws=draws)
    name = _name(layout, task=task, pass_id=pass_id, uncased=tokenizer.lower)
    info = folder / f"record_info-{name}.json"
    if info.exists():
        raise DataError(f"{info}: there is a file of this name already; choose another folder, or remove it yourself")
    folder.mkdir(parents=True, exist_ok=True)
    count = write_records(folder / f"{name}.tfrecords", (_example(record) for record in records))
    if not count:
        (folder / f"{name}.tfrecords").unlink()
        raise DataError(
            f"{len(text.ids):,} tokens are too few for one record in each of {layout.rows} rows of {layout.length}; "
            "use more text or fewer rows"
        )
    beside = info.with_name(info.name + ".part")
    with beside.open("w", encoding="utf-8") as file:
        json.dump({"filenames": [f"{name}.tfrecords"], "num_batch": count // layout.rows}, file)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(info)
    return info


def _example(record: Record) -> bytes:
    return write_example(
        {
            "input": record.input,
            "is_masked": record.is_masked.astype(np.int64),
            "target": record.target,
            "seg_id": record.seg_id,
            "label": np.array([record.label]),
        }
    )


def _name(layout: RecordLayout, *, task: int, pass_id: int, uncased: bool) -> str:
    """The official file name (``format_filename``)."""
    parts = [
        f"train-{task}-{pass_id}",
        f"bsz-{layout.rows}",
        f"seqlen-{layout.length}",
        f"reuse-{layout.reuse}",
        *(["uncased"] if uncased else []),
        "bi" if layout.bidirectional else "uni",
        f"alpha-{layout.spans.alpha}",
        f"beta-{layout.spans.beta}",
        *([] if layout.targets is None else [f"fnp-{layout.targets}"]),
    ]
    return ".".join(parts)
