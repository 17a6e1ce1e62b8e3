"""A prepared corpus, opened."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy import ndarray as Array

from anyorder.core import DataError, Vocab, did_you_mean

from .manifest import DOCUMENTS, SENTENCES, TOKENIZER, TOKENS, VALID, Manifest
from .tokenizer import Tokenizer

SPLITS = ("train", "valid")
_HASHED_AT_ONCE = 1 << 28  # bytes; larger files are hashed on demand only


@dataclass(frozen=True)
class Split:
    """The documents of one side, over the tokens of the whole corpus.

    Attributes:
        name: ``"train"`` or ``"valid"``.
        tokens: all tokens of the corpus, memory-mapped.
        starts, lengths: where each document of this split lies in ``tokens``.
        sentence_ends: ends of all sentences of the corpus, ascending.
        tokenizer: of the corpus.
    """

    name: str
    tokens: Int[Array, " n"]
    starts: Int[Array, " d"]
    lengths: Int[Array, " d"]
    sentence_ends: Int[Array, " s"]
    tokenizer: Tokenizer

    @property
    def vocab(self) -> Vocab:
        return self.tokenizer.vocab

    @property
    def documents(self) -> int:
        return len(self.starts)

    @cached_property
    def token_count(self) -> int:
        return int(self.lengths.sum())

    def document(self, number: int) -> Int[Array, " n"]:
        """The tokens of one document, ``<eod>`` included."""
        start = int(self.starts[number])
        return self.tokens[start : start + int(self.lengths[number])]


class Corpus:
    """A corpus folder made by ``prepare``. Open with ``Corpus.open``."""

    def __init__(self, folder: Path, manifest: Manifest, tokenizer: Tokenizer) -> None:
        self.folder, self.manifest, self.tokenizer = folder, manifest, tokenizer

    @classmethod
    def open(cls, folder: str | Path, *, tokenizer: Tokenizer | None = None, verify: bool | None = None) -> Corpus:
        """Open and check a corpus.

        Args:
            tokenizer: refuse the corpus if it was made with another.
            verify: compare every file with its hash in the manifest; by default those up to 256 MiB. Sizes are
                always compared.

        Raises:
            DataError: no corpus, or a truncated or altered one, or one of another tokenizer.
        """
        folder = Path(folder)
        manifest = Manifest.read(folder)
        for name, expected in manifest.files.items():
            _check_file(folder / name, expected, verify=verify)
        settings = manifest.tokenizer
        own = Tokenizer(
            (folder / TOKENIZER).read_bytes(),
            name=str(folder / TOKENIZER),
            style=settings["style"],
            lower=settings["lower"],
            keep_accents=settings["keep_accents"],
        )
        if own.sha256 != settings["sha256"]:
            raise DataError(f"{folder}: {TOKENIZER} is not the one the corpus was made with; prepare the corpus again")
        if tokenizer is not None and (tokenizer.sha256, tokenizer.settings) != (own.sha256, own.settings):
            what = "model" if tokenizer.sha256 != own.sha256 else "clean-up settings"
            raise DataError(
                f"{folder}: made with another tokenizer than {tokenizer.name} (another {what}); "
                "prepare the sources again with this tokenizer, or use the corpus's own"
            )
        return cls(folder, manifest, own)

    @property
    def vocab(self) -> Vocab:
        return self.tokenizer.vocab

    def split(self, name: str) -> Split:
        """The ``"train"`` or the ``"valid"`` documents.

        Raises:
            DataError: an unknown or an empty split.
        """
        if name not in SPLITS:
            raise DataError(f"no split {name!r}; allowed: 'train', 'valid'{did_you_mean(name, SPLITS)}")
        offsets, held_out = self._map(DOCUMENTS, "<i8"), self._map(VALID, "<i8")
        mask = np.zeros(len(offsets) - 1, dtype=np.bool_)
        mask[held_out] = True
        chosen = mask if name == "valid" else ~mask
        if not chosen.any():
            raise DataError(
                f"{self.folder}: the {name!r} split is empty; prepare with a larger valid_fraction, more documents or "
                "a smaller max_document_pieces"
            )
        return Split(
            name=name,
            tokens=self._map(TOKENS, self.manifest.dtype),
            starts=np.asarray(offsets[:-1][chosen], dtype=np.int64),
            lengths=np.asarray(np.diff(offsets)[chosen], dtype=np.int64),
            sentence_ends=self._map(SENTENCES, "<i8"),
            tokenizer=self.tokenizer,
        )

    def _map(self, name: str, dtype: str) -> Any:
        path = self.folder / name
        if path.stat().st_size == 0:  # nothing to map
            return np.zeros(0, dtype=dtype)
        return np.memmap(path, dtype=dtype, mode="r").view(np.ndarray)


def _check_file(path: Path, expected: dict[str, Any], *, verify: bool | None) -> None:
    try:
        size = path.stat().st_size
    except OSError:
        raise DataError(f"{path}: is missing from the corpus; prepare it again") from None
    if size != expected["bytes"]:
        raise DataError(
            f"{path}: has {size} bytes where the manifest says {expected['bytes']}: truncated or altered; "
            "prepare the corpus again"
        )
    if verify or (verify is None and size <= _HASHED_AT_ONCE):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != expected["sha256"]:
            raise DataError(f"{path}: was altered since it was made; prepare the corpus again")
