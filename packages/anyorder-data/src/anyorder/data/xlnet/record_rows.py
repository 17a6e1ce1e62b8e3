"""Official pretraining records as batches to train on."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from anyorder.core import DataError, TokenBatch, Vocab
from anyorder.core.formats import WireError

from .example import Features, read_example
from .tfrecord import RecordFile

_NAME = re.compile(r"\.bsz-(\d+)\.seqlen-(\d+)\.reuse-(\d+)\.(?:uncased\.)?(bi|uni)\.")
_FIELDS = ("input", "seg_id", "is_masked")


class RecordRows:
    """Records of the official ``data_utils.py``, step after step, as it laid them out for recurrent memory.

    Targets are those of the records (``targets: {type: recorded}`` takes them), the order is drawn at each reading, and
    the first ``stride`` tokens of a row never see the others, as official ``_local_perm`` has it.

    Args:
        path: a ``record_info-*.json``, a ``.tfrecords`` file, or a folder of them, read in the order of their names.
        vocab: special ids.
        starts_word: whether each piece begins a word (``Tokenizer.starts_word``).
        rows: rows of a batch: the official ``bsz_per_host``.
        length: tokens of a record (``seq_len``).
        stride: how far apart records of a row start (``reuse_len``).
        bidirectional: the second half of each core's rows is read from right to left (``bi_data``).
        cores: how many parts a batch was divided into (``num_core_per_host``), which no file tells.
        restart: forget at every file's beginning; otherwise only at the very first step (the official code never
            forgets).

    Raises:
        DataError: no such file, a damaged one, or one that was written for other rows or lengths.
    """

    def __init__(
        self,
        path: Path,
        *,
        vocab: Vocab,
        starts_word: NDArray[np.bool_],
        rows: int,
        length: int,
        stride: int,
        bidirectional: bool = False,
        cores: int = 1,
        restart: bool = True,
    ) -> None:
        parts = cores * (2 if bidirectional else 1)
        if cores < 1 or rows % parts:
            raise DataError(f"{rows} rows cannot be shared by {cores} cores; use a multiple of {max(parts, 1)}")
        self.vocab, self._starts_word = vocab, starts_word
        self.rows, self.length, self.stride, self.restart = rows, length, stride, restart
        self.bidirectional = bidirectional
        files = record_files(path)
        for file in files:
            self._require_name(file)
        self._files = [RecordFile(file) for file in files]
        self._begins = np.cumsum([0, *(self._steps_of(file) for file in self._files)])
        self._steps = range(int(self._begins[-1]))
        if not self._steps:
            raise DataError(f"{path}: no step of {rows} records; it has {sum(map(len, self._files))} records in all")
        half = rows // parts
        self._backward = np.arange(rows) // half % 2 == 1 if bidirectional else np.zeros(rows, dtype=np.bool_)
        self._direction = torch.from_numpy(np.where(self._backward, -1, 1)) if bidirectional else None

    @property
    def steps_per_epoch(self) -> int:
        return len(self._steps)

    def part(self, steps: range) -> RecordRows:
        """The same rows, of some of the steps."""
        assert 0 <= steps.start < steps.stop <= self.steps_per_epoch, steps
        part = copy.copy(self)
        part._steps = self._steps[steps.start : steps.stop]
        return part

    def _require_name(self, path: Path) -> None:
        """Hold what an official file name says against the arguments."""
        found = _NAME.search(path.name)
        if found is None:
            return
        own = {"bsz": self.rows, "seqlen": self.length, "reuse": self.stride}
        for (name, wanted), written in zip(own.items(), found.groups(), strict=False):
            if wanted != int(written):
                raise DataError(f"{path}: its name says {name}-{written}, and {wanted} is asked for; use {written}")
        if (found[4] == "bi") != self.bidirectional:
            raise DataError(f"{path}: its name says {found[4]!r}: set bidirectional to {str(found[4] == 'bi').lower()}")

    def _steps_of(self, file: RecordFile) -> int:
        if len(file) % self.rows:
            raise DataError(
                f"{file.path}: {len(file)} records are not whole batches of {self.rows} rows (bsz_per_host)"
            )
        return len(file) // self.rows

    @property
    def last_block(self) -> int:
        """How many tokens at a record's end may see all of it."""
        return self.length - self.stride or self.length

    def batch(self, step: int) -> TokenBatch:
        """The records of one step; a pure function of it.

        Raises:
            DataError: a record is damaged or not of this length.
        """
        if step < 0:
            raise DataError(f"step {step} is negative")
        at = self._steps[step % self.steps_per_epoch]
        number = int(np.searchsorted(self._begins, at, side="right")) - 1
        within = at - int(self._begins[number])
        records = [self._record(self._files[number], within * self.rows + row) for row in range(self.rows)]
        ids, segment, masked = (np.stack([record[name] for record in records]) for name in _FIELDS)
        begins = step == 0 or (self.restart and (within == 0 or step % self.steps_per_epoch == 0))
        labels = np.array([record["label"][0] for record in records])
        return TokenBatch(
            ids=torch.from_numpy(ids),
            doc=torch.zeros(ids.shape, dtype=torch.int64),
            fixed=torch.from_numpy((ids == self.vocab.sep) | (ids == self.vocab.cls)),
            fresh=torch.full((self.rows,), begins),
            direction=self._direction,
            segment=torch.from_numpy(segment),
            word=torch.from_numpy(self._words(ids)),
            block=(torch.arange(self.length) >= self.stride).long().expand(self.rows, -1).contiguous(),
            target=torch.from_numpy(masked > 0),
            labels={"next_sentence": torch.from_numpy(labels)},
        )

    def _record(self, file: RecordFile, number: int) -> Features:
        try:
            record = read_example(file[number])
        except WireError as error:
            raise DataError(f"{file.path}: record {number} is no tf.train.Example: {error}") from None
        for name in _FIELDS:
            found = len(record.get(name, ()))
            if found != self.length:
                raise DataError(
                    f"{file.path}: record {number} has {found} numbers in {name!r}, and length is {self.length}; was "
                    "it written for another seq_len?"
                )
        if len(record.get("label", ())) != 1:
            raise DataError(f"{file.path}: record {number} has no single 'label'")
        low, high = int(record["input"].min()), int(record["input"].max())
        if low < 0 or high >= self.vocab.size:
            raise DataError(
                f"{file.path}: record {number} has token id {low if low < 0 else high}, outside the vocabulary of "
                f"{self.vocab.size}; is this the tokenizer it was written with?"
            )
        return record

    def _words(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Word numbers; what begins a word is seen in text order, whichever way a row reads."""

        def turn(values: NDArray[np.int64]) -> NDArray[np.int64]:
            values[self._backward] = values[self._backward, ::-1]
            return values

        return turn(np.cumsum(self._starts_word[turn(ids.copy())], axis=1))


def record_files(path: Path) -> list[Path]:
    """The TFRecord files that a path stands for.

    Raises:
        DataError: there are none.
    """
    if path.is_dir():
        infos = sorted(path.glob("record_info-*.json"))
        found = [file for info in infos for file in record_files(info)] or sorted(path.glob("*.tfrecords"))
        if not found:
            raise DataError(f"{path}: no record_info-*.json and no .tfrecords file in this folder")
        return found
    if path.suffix != ".json":
        return [path]
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
        names = [str(name) for name in tree["filenames"]]
    except OSError as error:
        raise DataError(f"{path}: cannot read: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError):
        raise DataError(f'{path}: not an official record_info file, {{"filenames": [...], "num_batch": ...}}') from None
    files = [path.parent / Path(name).name for name in names]
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise DataError(f"{path}: names files that are not beside it: {', '.join(missing[:3])}")
    return files
