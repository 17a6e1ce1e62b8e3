"""What a prepared corpus says of itself."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from anyorder.core import DataError

FORMAT = "anyorder-corpus"
VERSION = 1
MANIFEST = "manifest.json"
TOKENIZER = "tokenizer.model"
TOKENS, DOCUMENTS, SENTENCES, VALID = "tokens.bin", "documents.bin", "sentences.bin", "valid.bin"


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The content of ``manifest.json``. It names no absolute path and no date: same input, same bytes.

    Attributes:
        tokenizer: ``sha256`` of the model, ``vocab_size``, and the clean-up's settings.
        dtype: of ``tokens.bin``.
        counts: ``documents``, ``sentences``, ``tokens``, ``unknown`` tokens, ``characters`` and ``bytes`` of cleaned
            text (``bytes`` by ``Tokenizer.piece_bytes``).
        splits: ``documents``, ``tokens`` and ``bytes`` of ``train`` and ``valid``.
        sources: ``name``, ``kind``, ``size`` and ``sha256`` of every source.
        settings: the arguments of ``prepare`` that decide the result.
        fingerprint: hash of sources and settings; equal if a second ``prepare`` would give the same.
        files: size in bytes and ``sha256`` of every other file of the folder.
    """

    format: str = FORMAT
    version: int = VERSION
    tokenizer: dict[str, Any]
    dtype: str
    counts: dict[str, int]
    splits: dict[str, dict[str, int]]
    sources: list[dict[str, Any]]
    settings: dict[str, Any]
    fingerprint: str
    files: dict[str, dict[str, Any]]

    def text(self) -> str:
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Read and check ``folder/manifest.json``."""
        path = folder / MANIFEST
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            what = "has no manifest.json, so it is no prepared corpus" if folder.is_dir() else "does not exist"
            raise DataError(f"{folder}: {what}; make one with `anyorder prepare`") from None
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: cannot be read ({error}); prepare the corpus again") from error
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise DataError(f"{path}: not the manifest of a corpus; prepare the corpus again")
        if content.get("version") != VERSION:
            raise DataError(
                f"{path}: format version {content.get('version')!r}, this release reads {VERSION}; "
                "prepare the corpus again"
            )
        names = {field.name for field in fields(cls)}
        missing = sorted(names - content.keys())
        if missing:
            raise DataError(f"{path}: lacks {', '.join(missing)}; prepare the corpus again")
        return cls(**{name: content[name] for name in names})
