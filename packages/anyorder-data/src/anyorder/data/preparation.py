"""From text in many forms to memory-mapped tokens."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from anyorder.core import DataError

from .corpus import Corpus
from .documents import DOCUMENT_BREAKS, DocumentBreak, Passage, read_passages
from .encode import Encoder, Pool, SentenceBreak, available_cores, chunks
from .folder import atomic_folder
from .manifest import DOCUMENTS, FORMAT, MANIFEST, SENTENCES, TOKENIZER, TOKENS, VALID, VERSION, Manifest
from .progress import Progress
from .sources import Source, find_sources
from .text import cut
from .tokenizer import Style, Tokenizer
from .train_tokenizer import train_tokenizer
from .writer import CorpusWriter, choose_valid

_SMALL = 1 << 22  # bytes of sources below which starting processes costs more than it saves


def prepare(
    sources: str | Path | Iterable[str | Path],
    out: str | Path,
    *,
    tokenizer: Tokenizer | str | Path | None = None,
    vocab_size: int = 8000,
    style: Style = "xlnet",
    lower: bool = False,
    keep_accents: bool = False,
    eop: bool = False,
    documents: DocumentBreak = "form_feed",
    max_document_pieces: int | None = 16384,
    valid_fraction: float = 0.02,
    valid_documents: int | None = None,
    text_field: str = "text",
    training_characters: int = 10_000_000,
    workers: int | None = None,
    seed: int = 0,
    overwrite: bool = False,
    progress: bool = True,
) -> Corpus:
    """Turn text into a corpus folder; a folder that already holds the same is left alone.

    A document is its paragraphs' pieces one after another, then ``<eod>``, as in XLNet's ``data_utils.py``; a
    paragraph (text between blank lines) begins with a word that has a leading space, so it is told from the one before
    only as one word from the next. With ``eop`` each also ends with ``<eop>``.

    The result does not depend on the number of workers or on where the files lie. It appears in one renaming when all
    is written; an interrupted run leaves nothing that looks like a corpus, and can be run again.

    Args:
        sources: ``.txt``, ``.jsonl``, ``.csv`` files (each also as ``.gz``), ``.parquet`` files, folders of these, and
            ``hf:NAME[:CONFIG[:SPLIT]]`` for a data set of the ``datasets`` library.
        out: the corpus folder.
        tokenizer: a tokenizer, or its file; by default one is trained on the sources.
        vocab_size: of a tokenizer that is trained.
        style, lower, keep_accents: the clean-up (``Tokenizer``), unless ``tokenizer`` is a ``Tokenizer``.
        eop: end every paragraph with ``<eop>``.
        documents: what ends a document of a text file beside its end: ``"form_feed"``, nothing (``"file"``), or
            ``"blank_line"``, lines then being sentences.
        max_document_pieces: cut longer documents at paragraph borders into documents of at most this many pieces,
            so that a few books can be split into training and validation text. None cuts none.
        valid_fraction: tokens to hold out, as a share; always whole documents, equal documents on the same side.
        valid_documents: number of documents to hold out instead.
        text_field: field of the text in records.
        training_characters: most text a tokenizer is trained on; a random sample of the paragraphs if there is more.
        workers: processes; all cores by default.
        seed: of the split and of that sample.
        overwrite: replace another corpus in ``out``. A folder that holds anything else is never touched.
        progress: show a bar (plain lines when not on a terminal) and what was done.

    Raises:
        DataError: what is wrong, with file and line.
    """
    report = Progress(show=progress)
    out = Path(out)
    _check_settings(documents, valid_fraction, valid_documents, max_document_pieces, workers, training_characters)
    if tokenizer is not None and not isinstance(tokenizer, Tokenizer):
        tokenizer = Tokenizer.load(tokenizer, style=style, lower=lower, keep_accents=keep_accents)
    found = find_sources(sources)
    described = [
        {"name": source.name, "kind": source.kind, "size": source.size, "sha256": source.fingerprint()}
        for source in found
    ]
    settings: dict[str, Any] = {
        "tokenizer": "trained" if tokenizer is None else tokenizer.sha256,
        "vocab_size": vocab_size if tokenizer is None else tokenizer.vocab.size,
        "training_characters": training_characters if tokenizer is None else None,
        **({"style": style, "lower": lower, "keep_accents": keep_accents} if tokenizer is None else tokenizer.settings),
        "eop": eop,
        "documents": documents,
        "max_document_pieces": max_document_pieces,
        "valid_fraction": valid_fraction if valid_documents is None else None,
        "valid_documents": valid_documents,
        "text_field": text_field,
        "seed": seed,
    }
    fingerprint = _fingerprint(settings, described)
    if _already_there(out, fingerprint, settings, described, overwrite=overwrite):
        try:
            corpus = Corpus.open(out)
        except DataError as error:
            report.say(f"{error}; preparing it again")
        else:
            report.say(f"{out}: already prepared from the same sources with the same settings; nothing to do")
            return corpus
    reader = _Reader(found, text_field, documents, report)
    if tokenizer is None:
        sample = _sample(reader.passages("sampling text"), characters=training_characters, seed=seed)
        if not sample:
            raise _empty(found)
        report.say(f"training a tokenizer of {vocab_size} pieces on {sum(map(len, sample)):,} characters")
        tokenizer = train_tokenizer(sample, vocab_size=vocab_size, style=style, lower=lower, keep_accents=keep_accents)
    sentence_break: SentenceBreak = "line" if documents == "blank_line" else "punctuation"
    encoder = Encoder(tokenizer, eop, sentence_break)
    if workers is None:
        small = sum(source.size for source in found) < _SMALL and all(source.kind != "hf" for source in found)
        workers = 1 if small else available_cores()
    with atomic_folder(out) as folder:
        writer = CorpusWriter(folder, tokenizer, max_document_pieces, seed)
        with Pool(encoder, workers=workers).running() as pool:
            for encoded in pool.encode(chunks(reader.passages("encoding"))):
                writer.add(encoded)
        files = writer.close()
        if not writer.ends:
            raise _empty(found)
        manifest = _describe(
            folder,
            writer,
            tokenizer,
            files,
            valid_fraction=valid_fraction,
            valid_documents=valid_documents,
            settings=settings,
            sources=described,
            fingerprint=fingerprint,
        )
        (folder / MANIFEST).write_text(manifest.text(), encoding="utf-8")
    counts, splits = manifest.counts, manifest.splits
    report.say(
        f"{out}: {counts['documents']:,} documents, {counts['tokens']:,} tokens "
        f"({splits['train']['tokens']:,} to train, {splits['valid']['tokens']:,} held out)"
    )
    if not splits["valid"]["documents"] and valid_fraction > 0:
        report.say(f"{out}: one document only, so nothing is held out; a smaller max_document_pieces cuts it up")
    return Corpus.open(out)


class _Reader:
    """The passages of all sources, with progress."""

    def __init__(self, sources: list[Source], text_field: str, documents: DocumentBreak, report: Progress) -> None:
        self._sources, self._field, self._documents, self._report = sources, text_field, documents, report

    def passages(self, what: str) -> Iterator[Passage]:
        with self._report.start(what, sum(source.size for source in self._sources)) as bar:
            for source in self._sources:
                yield from read_passages(source, text_field=self._field, documents=self._documents, advance=bar.advance)


def _sample(passages: Iterable[Passage], *, characters: int, seed: int) -> list[str]:
    """A uniform sample of the passages of about ``characters`` characters, in one pass: each passage draws a number,
    and the bar is lowered whenever what lies under it grows too large."""
    draws = random.Random(seed)
    held: list[tuple[float, str]] = []
    size, bar = 0, 1.0
    for passage in passages:
        for text in cut(passage.text, 4000):
            draw = draws.random()
            if draw >= bar:
                continue
            held.append((draw, text))
            size += len(text)
        while size > characters and len(held) > 1:
            bar *= 0.8
            held = [entry for entry in held if entry[0] < bar]
            size = sum(len(text) for _, text in held)
    return [text for _, text in held]


def _describe(
    folder: Path,
    writer: CorpusWriter,
    tokenizer: Tokenizer,
    files: dict[str, dict[str, Any]],
    *,
    valid_fraction: float,
    valid_documents: int | None,
    settings: dict[str, Any],
    sources: list[dict[str, Any]],
    fingerprint: str,
) -> Manifest:
    """Choose what is held out, write the small files, and describe everything."""
    ends = np.asarray(writer.ends, dtype=np.int64)
    lengths, sizes = np.diff(ends, prepend=0), np.asarray(writer.bytes, dtype=np.int64)
    held_out = choose_valid(
        np.asarray(writer.keys, dtype=np.uint64), lengths, fraction=valid_fraction, count=valid_documents
    )
    mask = np.zeros(len(ends), dtype=np.bool_)
    mask[held_out] = True
    for name, data in ((VALID, held_out.astype("<i8").tobytes()), (TOKENIZER, tokenizer.model)):
        (folder / name).write_bytes(data)
        files[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return Manifest(
        tokenizer={"sha256": tokenizer.sha256, "vocab_size": tokenizer.vocab.size, **tokenizer.settings},
        dtype=writer.dtype.str,
        counts={
            "documents": len(ends),
            "sentences": writer.sentences,
            "tokens": int(ends[-1]),
            "unknown": writer.unknown,
            "characters": writer.characters,
            "bytes": int(sizes.sum()),
        },
        splits={
            name: {
                "documents": int(part.sum()),
                "tokens": int(lengths[part].sum()),
                "bytes": int(sizes[part].sum()),
            }
            for name, part in (("train", ~mask), ("valid", mask))
        },
        sources=sources,
        settings=settings,
        fingerprint=fingerprint,
        files=files,
    )


def _fingerprint(settings: dict[str, Any], sources: list[dict[str, Any]]) -> str:
    content = json.dumps([FORMAT, VERSION, settings, sources], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(content.encode()).hexdigest()


def _already_there(
    out: Path, fingerprint: str, settings: dict[str, Any], sources: list[dict[str, Any]], *, overwrite: bool
) -> bool:
    """Whether ``out`` holds the very corpus; raises if it holds anything else that must not be replaced."""
    if not out.exists():
        return False
    if not out.is_dir():
        raise DataError(f"{out}: is a file; name a folder for the corpus")
    if not any(out.iterdir()):
        return False
    if not (out / MANIFEST).is_file():
        raise DataError(f"{out}: holds other files and no corpus; name a new or an empty folder")
    if overwrite:
        own = {MANIFEST, TOKENIZER, TOKENS, DOCUMENTS, SENTENCES, VALID}
        strangers = sorted(file.name for file in out.iterdir() if file.name not in own)
        if strangers:
            raise DataError(f"{out}: holds files that are no part of a corpus ({', '.join(strangers)}); move them away")
        return False
    try:
        manifest = Manifest.read(out)
    except DataError as error:
        raise DataError(f"{error}, with overwrite to replace what is there") from error
    if manifest.fingerprint == fingerprint:
        return True
    changed = [name for name, value in settings.items() if manifest.settings.get(name) != value]
    if manifest.sources != sources:
        changed.insert(0, "sources")
    raise DataError(
        f"{out}: holds another corpus (it differs in {', '.join(changed) or 'its format'}); "
        "name another folder, or pass --overwrite"
    )


def _check_settings(
    documents: str,
    valid_fraction: float,
    valid_documents: int | None,
    max_document_pieces: int | None,
    workers: int | None,
    training_characters: int,
) -> None:
    if documents not in DOCUMENT_BREAKS:
        raise DataError(f"documents is {documents!r}; allowed: {', '.join(map(repr, DOCUMENT_BREAKS))}")
    if not 0 <= valid_fraction < 1:
        raise DataError(f"valid_fraction is {valid_fraction}; allowed: 0 to less than 1")
    for name, value, least in (
        ("valid_documents", valid_documents, 0),
        ("max_document_pieces", max_document_pieces, 2),
        ("workers", workers, 1),
        ("training_characters", training_characters, 1),
    ):
        if value is not None and value < least:
            raise DataError(f"{name} is {value}; it must be at least {least}")


def _empty(sources: list[Source]) -> DataError:
    names = ", ".join(source.name for source in sources[:3]) + (", ..." if len(sources) > 3 else "")
    return DataError(f"{names}: no text in the sources; a corpus needs at least one non-empty document")
