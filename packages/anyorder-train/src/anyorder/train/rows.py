"""The ``data`` section of a recipe: rows of a corpus to train on, and rows held out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from anyorder.core import Vocab
from anyorder.data import Corpus, Rows, bundled_corpus

__all__ = ["TextRows", "open_corpus", "open_rows"]


@dataclass(frozen=True, kw_only=True)
class TextRows:
    """Contiguous rows of both sides of a corpus."""

    corpus: Corpus
    train: Rows
    valid: Rows

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
        layout: ``plain`` text, or XLNet's ``pairs`` of segments, which the next-sentence head needs.
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
        shuffle_documents=False,
    )
    return TextRows(corpus=opened, train=rows, valid=held_out)


def open_corpus(corpus: Path | None, *, vocab_size: int) -> Corpus:
    """The corpus of a folder, or the one that ships, prepared once and kept in the cache."""
    return Corpus.open(bundled_corpus(vocab_size=vocab_size) if corpus is None else corpus)
