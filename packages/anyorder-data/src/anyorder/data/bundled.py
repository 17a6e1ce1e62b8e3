"""The small public-domain corpus that ships with the package, prepared on first use."""

from __future__ import annotations

import hashlib
import os
from importlib.resources import as_file, files
from pathlib import Path

from anyorder.core import DataError

from .corpus import Corpus
from .folder import lock
from .manifest import VERSION
from .preparation import prepare
from .tokenizer import Tokenizer

_NAME = "gutenberg_prose.txt.gz"
_DOCUMENT_PIECES = 4096  # of a book; some 350 parts, so that the held-out ones come from most of the books
_VALID_FRACTION = 0.03
_TRAINING_CHARACTERS = 3_000_000  # half of the text, sampled: half the seconds for 0.8 % more tokens


def cache_folder() -> Path:
    """Where prepared corpora are kept: ``$ANYORDER_CACHE``, or ``anyorder`` in the user's cache folder."""
    chosen = os.environ.get("ANYORDER_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "anyorder"


def bundled_corpus(
    *,
    vocab_size: int = 8000,
    tokenizer: Tokenizer | None = None,
    cache: str | Path | None = None,
    progress: bool = True,
) -> Path:
    """Eleven prose books (1.5 million pieces of an 8,000-piece vocabulary) as a corpus folder.

    The first call trains the tokenizer and prepares the corpus, in well under half a minute; later ones only check
    it, and prepare it again if it was damaged. Processes that ask at once wait for the one that prepares.

    Args:
        vocab_size: of the tokenizer that is trained.
        tokenizer: use this one instead.
        cache: where to keep it; ``cache_folder()`` by default.
    """
    folder = cache_folder() if cache is None else Path(cache)
    folder.mkdir(parents=True, exist_ok=True)
    key = f"{vocab_size}" if tokenizer is None else tokenizer.sha256[:12]
    recipe = hashlib.sha256(
        repr((VERSION, _DOCUMENT_PIECES, _VALID_FRACTION, _TRAINING_CHARACTERS)).encode()
    ).hexdigest()[:6]
    target = folder / f"prose-{key}-{recipe}"
    with lock(folder / f".{target.name}.lock"), as_file(files(__package__) / "assets" / _NAME) as source:
        if not _healthy(target):
            prepare(
                source,
                target,
                tokenizer=tokenizer,
                vocab_size=vocab_size,
                max_document_pieces=_DOCUMENT_PIECES,
                valid_fraction=_VALID_FRACTION,
                training_characters=_TRAINING_CHARACTERS,
                overwrite=True,
                progress=progress,
            )
    return target


def _healthy(folder: Path) -> bool:
    try:
        Corpus.open(folder)
    except DataError:
        return False
    return True
