"""The ``data`` section of a recipe: rows of a corpus to train on, and rows held out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from anyorder.core import DataError, RecipeError, Vocab
from anyorder.data import Corpus, Rows, bundled_corpus
from anyorder.data.xlnet import RecordRows

__all__ = ["TextRows", "open_corpus", "open_records", "open_rows"]


@dataclass(frozen=True, kw_only=True)
class TextRows:
    """Contiguous rows to train on and rows held out, with the corpus that they, or only their tokenizer, are from."""

    corpus: Corpus
    train: Rows | RecordRows
    valid: Rows | RecordRows

    @property
    def vocab(self) -> Vocab:
        return self.corpus.vocab


def open_rows(
    *,
    corpus: Path | None = None,
    vocab_size: int = 4000,
    length: int = 128,
    stride: int | None = None,
    bidirectional: bool = False,
    isolate_documents: bool = False,
    layout: Literal["plain", "pairs"] = "plain",
    isolate_reuse: bool = True,
    negatives: Literal["random", "swapped"] = "random",
    batch_size: int,
    seed: int = 0,
) -> TextRows:
    """Open a corpus and lay it out in rows.

    Args:
        corpus: a folder that ``anyorder prepare`` made; None is the prose that ships with anyorder.
        vocab_size: pieces of the tokenizer of the prose that ships; a prepared corpus has its own.
        length: tokens of a segment.
        stride: how far apart segments of a row start; None is what memory keeps of each, or whole segments.
        bidirectional: let half of the rows read right to left.
        isolate_documents: let no document see another; otherwise a row is one document, as in XLNet.
        layout: ``plain`` text, or XLNet's ``pairs`` of segments, which heads of sentence pairs need.
        isolate_reuse: never let the tokens before the next segment's start see those after it, as memory needs;
            without memory a segment may be one whole (BERT).
        negatives: half of the pairs: ``random`` text after the first segment, for the head ``next_sentence``, or the
            two segments ``swapped``, for ``sentence_order``.
        batch_size: rows.
        seed: of the order of the documents to train on. Held-out documents always come as they are.
    """
    opened = open_corpus(corpus, vocab_size=vocab_size)
    train, valid = opened.split("train"), opened.split("valid")
    rows = Rows(
        train,
        rows=batch_size,
        length=length,
        stride=stride,
        bidirectional=bidirectional,
        isolate_documents=isolate_documents,
        layout=layout,
        isolate_reuse=isolate_reuse,
        negatives=negatives,
        seed=seed,
    )
    pair = 2 if bidirectional else 1
    fitting = max(1, valid.token_count // (length + 1)) * pair  # so that each stream has a segment
    held_out = Rows(
        valid,
        rows=min(batch_size, fitting),
        length=length,
        stride=stride,
        bidirectional=bidirectional,
        isolate_documents=isolate_documents,
        layout=layout,
        isolate_reuse=isolate_reuse,
        negatives=negatives,
        shuffle_documents=False,
    )
    return TextRows(corpus=opened, train=rows, valid=held_out)


def open_records(
    *,
    path: Path,
    corpus: Path,
    length: int = 512,
    stride: int | None = None,
    bidirectional: bool = False,
    cores: int = 1,
    restart: bool = True,
    held_out: float = 0.02,
    batch_size: int,
) -> TextRows:
    """Open pretraining records of the official XLNet code; their targets are ``targets: {type: recorded}``.

    Args:
        path: a ``record_info-*.json``, a ``.tfrecords`` file, or a folder of them.
        corpus: a folder that ``anyorder prepare`` made with the records' tokenizer; yardsticks are measured on its
            held-out text.
        length: tokens of a record (``seq_len``).
        stride: how far apart records of a row start (``reuse_len``); None is what memory keeps of each.
        bidirectional: the records have rows that read from right to left (``bi_data``).
        cores: how many parts each batch was made for (``num_core_per_host``); it decides which rows those are.
        restart: forget at every file's beginning; the official code never forgets.
        held_out: which part of the steps, the last ones, to keep for evaluation.
        batch_size: rows (``bsz_per_host``).
    """
    if not 0 < held_out < 1:
        raise RecipeError(f"held_out is {held_out}; it must be between 0 and 1", path="held_out")
    opened = Corpus.open(corpus)
    rows = RecordRows(
        path,
        vocab=opened.vocab,
        starts_word=opened.tokenizer.starts_word,
        rows=batch_size,
        length=length,
        stride=length // 2 if stride is None else stride,
        bidirectional=bidirectional,
        cores=cores,
        restart=restart,
    )
    kept = max(1, round(rows.steps_per_epoch * held_out))
    if kept >= rows.steps_per_epoch:
        raise DataError(f"{path}: one step of records is too little: one more is needed to hold out")
    first = rows.steps_per_epoch - kept
    return TextRows(corpus=opened, train=rows.part(range(first)), valid=rows.part(range(first, rows.steps_per_epoch)))


def open_corpus(corpus: Path | None, *, vocab_size: int) -> Corpus:
    """The corpus of a folder, or the one that ships, prepared once and kept in the cache."""
    return Corpus.open(bundled_corpus(vocab_size=vocab_size) if corpus is None else corpus)
