import subprocess
import sys
from pathlib import Path

import pytest

from anyorder.data import Corpus, Rows, Tokenizer, bundled_corpus, cache_folder

DATA = Path(__file__).parent / "data"


def test_importing_the_package_loads_no_reader_and_no_trainer() -> None:
    script = (
        "import sys, anyorder.data; print([m for m in ('datasets', 'pyarrow', 'sentencepiece') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("ANYORDER_CACHE", raising=False)
    assert cache_folder() == tmp_path / "xdg" / "anyorder"
    monkeypatch.setenv("ANYORDER_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"


def test_prepared_once_and_mended_when_damaged(tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(DATA / "spiece.model")
    folder = bundled_corpus(tokenizer=tokenizer, cache=tmp_path, progress=False)
    corpus = Corpus.open(folder, tokenizer=tokenizer)
    assert corpus.manifest.counts["characters"] > 5_600_000
    splits = corpus.manifest.splits
    assert 0.02 < splits["valid"]["tokens"] / corpus.manifest.counts["tokens"] < 0.045
    assert splits["valid"]["documents"] >= 11
    Rows(corpus.split("train"), rows=32, length=512).batch(0).check(vocab_size=500)
    stamp = (folder / "manifest.json").stat().st_mtime_ns
    assert bundled_corpus(tokenizer=tokenizer, cache=tmp_path, progress=False) == folder
    assert (folder / "manifest.json").stat().st_mtime_ns == stamp
    (folder / "tokens.bin").write_bytes(b"")
    assert bundled_corpus(tokenizer=tokenizer, cache=tmp_path, progress=False) == folder
    assert Corpus.open(folder).manifest == corpus.manifest


@pytest.mark.slow
def test_two_processes_may_ask_at_once(tmp_path: Path) -> None:
    script = (
        f"from anyorder.data import bundled_corpus; print(bundled_corpus(vocab_size=2000, cache={str(tmp_path)!r}))"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answers = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 0], answers
    assert len({out for out, _ in answers}) == 1
    assert sum("training a tokenizer" in err for _, err in answers) == 1
    assert Corpus.open(answers[0][0].strip()).vocab.size == 2000
