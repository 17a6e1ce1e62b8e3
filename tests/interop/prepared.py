"""A small corpus for a tokenizer that is there already."""

from __future__ import annotations

from pathlib import Path

from anyorder.cli.main import main

TEXT = Path(__file__).parents[2] / "packages" / "anyorder-data" / "tests" / "data" / "a.txt"


def prepared(folder: Path, *, tokenizer: Path) -> Path:
    """The corpus's folder."""
    lines = TEXT.read_text(encoding="utf-8")
    (folder / "own.txt").write_text("\f".join(f"Part {n}.\n{lines}" for n in range(6)), encoding="utf-8")  # documents
    arguments = ["--tokenizer", str(tokenizer), "--valid-fraction", "0.3", "--out", str(folder / "corpus")]
    assert main(["prepare", str(folder / "own.txt"), *arguments]) == 0
    return folder / "corpus"
