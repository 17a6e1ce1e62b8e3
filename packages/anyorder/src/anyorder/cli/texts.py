"""Texts that a command is given: as arguments, or a file with one a line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from anyorder.core import DataError, RecipeError


def texts_of(given: Sequence[str], file: Path | None) -> list[str]:
    """Raise ``RecipeError`` where there is neither, ``DataError`` where the file cannot be read."""
    texts = list(given)
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise DataError(f"{file}: cannot be read: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise DataError(f"{file}: not UTF-8: {error.reason} at byte {error.start}") from None
        texts += [line for line in lines if line.strip()]
    if not texts:
        raise RecipeError("no text: give one with --text, or a file of texts, one a line, with --file")
    return texts
