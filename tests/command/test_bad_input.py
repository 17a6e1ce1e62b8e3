"""Bad input gives one line and loses nothing."""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from anyorder.train import checkpoint

from .conftest import prose


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "x.txt: no text in the sources; a corpus needs at least one non-empty document"),
        (b" \n\n\x0c \n", "x.txt: no text in the sources"),
        (b"good line\ncaf\xe9\n", "x.txt:2: byte 0xe9 at offset 13 is not UTF-8; convert the file"),
        (None, "x.txt: no such file or folder; readable: .txt, .jsonl, .csv"),
        (b"hi", "vocab_size 200 is more than this text can fill; the most is 20: set vocab_size to 20 or less"),
    ],
    ids=["empty", "blank", "not UTF-8", "missing", "too little"],
)
def test_text_that_makes_no_corpus(
    refused: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path("x.txt").write_bytes(content)
    assert refused("prepare", "x.txt", "--out", "made", "--vocab-size", 200, also=True).startswith(said)
    assert [file.name for file in tmp_path.iterdir()] == ([] if content is None else ["x.txt"])


def test_another_corpus_is_not_replaced_unasked(anyorder: Callable, refused: Callable, recipe: Path) -> None:
    Path("a.txt").write_text(prose(documents=2, words=400, seed=1))
    Path("b.txt").write_text(prose(documents=2, words=400, seed=2))
    assert anyorder("prepare", "a.txt", "--out", "made", "--vocab-size", 100).code == 0
    before = contents(Path("made"))
    assert "--overwrite" in refused("prepare", "b.txt", "--out", "made", "--vocab-size", 100)
    assert contents(Path("made")) == before
    assert anyorder("prepare", "b.txt", "--out", "made", "--vocab-size", 100, "--overwrite").code == 0
    assert contents(Path("made")) != before


def test_documents_shorter_than_a_segment(anyorder: Callable, recipe: Path) -> None:
    Path("short.txt").write_text(prose(documents=400, words=8))
    assert anyorder("prepare", "short.txt", "--out", "short", "--vocab-size", 100, "--valid-fraction", 0.2).code == 0
    ran = anyorder("train", recipe, "--set", "data.corpus=short", "--out", "run")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("run: 4 steps")


def test_one_very_long_line(anyorder: Callable, recipe: Path) -> None:
    Path("long.txt").write_text(prose(documents=1, words=300_000))
    ran = anyorder("prepare", "long.txt", "--out", "long", "--vocab-size", 100)
    assert ran.code == 0, ran.err
    assert anyorder("train", recipe, "--set", "data.corpus=long", "--out", "run").code == 0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            ["data.length=100000", "memory=none", "objective.order.perm_size=null"],
            "a segment needs 100,000: use a shor",
        ),
        (["train.batch_size=100000"], "the 'train' split has "),
        (["data.corpus=nowhere"], "nowhere: does not exist; make one with `anyorder prepare`"),
        (["train.device=tpu"], "train.device: device is 'tpu'; allowed are cpu, cuda and auto"),
    ],
)
def test_settings_that_the_data_or_machine_refuses(
    refused: Callable, recipe: Path, settings: list[str], said: str
) -> None:
    options = [word for setting in settings for word in ("--set", setting)]
    assert said in refused("train", recipe, *options, "--out", "run")
    assert not Path("run").exists()


@pytest.fixture
def altered(corpus: Path, recipe: Path) -> Path:
    """A copy of the corpus, which lies under the name that the recipe is told."""
    shutil.copytree(corpus, "altered")
    return Path("altered")


def note_hash(corpus: Path, name: str) -> None:
    manifest = json.loads((corpus / "manifest.json").read_text())
    data = (corpus / name).read_bytes()
    manifest["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (corpus / "manifest.json").write_text(json.dumps(manifest))


def test_ids_outside_the_vocabulary(refused: Callable, recipe: Path, altered: Path) -> None:
    tokens = np.fromfile(altered / "tokens.bin", dtype="<u2")
    tokens[::7] = 60_000
    tokens.tofile(altered / "tokens.bin")
    command = ("train", recipe, "--set", "data.corpus=altered", "--out", "run")
    assert "tokens.bin: was altered since it was made; prepare the corpus again" in refused(*command)
    note_hash(altered, "tokens.bin")
    said = refused(*command)
    assert "token id 60000 is outside the vocabulary of 200; was the corpus prepared with another tokenizer?" in said


def test_a_tokenizer_that_is_not_the_corpus_s(
    anyorder: Callable, refused: Callable, recipe: Path, altered: Path
) -> None:
    Path("other.txt").write_text(prose(documents=4, words=400, seed=3))
    assert anyorder("prepare", "other.txt", "--out", "other", "--vocab-size", 200).code == 0
    shutil.copy("other/tokenizer.model", altered / "tokenizer.model")
    command = ("train", recipe, "--set", "data.corpus=altered", "--out", "run")
    assert "tokenizer.model: " in refused(*command)
    note_hash(altered, "tokenizer.model")
    assert "tokenizer.model is not the one the corpus was made with" in refused(*command)
    assert not Path("run").exists()


def test_a_run_does_not_go_on_with_another_text(anyorder: Callable, refused: Callable, recipe: Path) -> None:
    assert anyorder("train", recipe, "--out", "run").code == 0
    Path("other.txt").write_text(prose(documents=4, words=400, seed=3))
    assert anyorder("prepare", "other.txt", "--out", "other", "--vocab-size", 200).code == 0
    before = contents(Path("run"))
    said = refused("train", recipe, "--out", "run", "--resume", "--set", "data.corpus=other")
    assert said.startswith("run was trained on a corpus of other text or another tokenizer")
    assert contents(Path("run")) == before


def test_a_corpus_may_move(anyorder: Callable, recipe: Path, altered: Path) -> None:
    assert anyorder("train", recipe, "--out", "run").code == 0
    ran = anyorder("train", recipe, "--out", "run", "--resume", "--set", "data.corpus=altered")
    assert ran.code == 0, ran.err
    assert "altered" in Path("run/recipe.yaml").read_text()


def test_a_full_disk(anyorder: Callable, refused: Callable, recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, calls = checkpoint.write_tensors, []

    def fail(path: Path, tensors: dict) -> None:
        calls.append(path)
        if len(calls) > 4:  # the second file of the second checkpoint
            path.write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, tensors)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "write_tensors", fail)
        said = refused("train", recipe, "--out", "run", code=1)
    assert said.startswith("run/checkpoints/step-00000004: the disk is full")
    assert [path.name for path in Path("run/checkpoints").iterdir()] == ["step-00000002"]
    ran = anyorder("train", recipe, "--out", "run", "--resume")
    assert ran.code == 0
    assert "continuing from step 2" in ran.err


@pytest.mark.parametrize("harm", ["truncated", "altered"])
def test_a_damaged_checkpoint(anyorder: Callable, refused: Callable, recipe: Path, harm: str) -> None:
    assert anyorder("train", recipe, "--out", "run").code == 0
    whole = contents(Path("run"))

    def damage(step: int) -> None:
        file = Path(f"run/checkpoints/step-{step:08d}/model.safetensors")
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data if harm == "altered" else data[:-100])

    damage(4)
    ran = anyorder("eval", "run", "--windows", 2, "--batches", 1)
    assert ran.code == 0
    assert ran.err.count("warning: ") == 1
    assert "step-00000004/model.safetensors" in ran.err
    assert "Continuing from step 2 instead" in ran.err

    damage(2)
    damaged = contents(Path("run"))
    for command in (("eval", "run"), ("train", recipe, "--out", "run", "--resume")):
        assert "no whole checkpoint is left in run/checkpoints" in refused(*command)
        assert contents(Path("run")) == damaged

    Path("run/checkpoints/step-00000002/model.safetensors").write_bytes(
        whole["checkpoints/step-00000002/model.safetensors"]
    )
    ran = anyorder("train", recipe, "--out", "run", "--resume")
    assert ran.code == 0, ran.err
    for name in ("model", "optimizer", "memory"):
        file = f"checkpoints/step-00000004/{name}.safetensors"
        assert Path("run", file).read_bytes() == whole[file]


SLOW_PREPARE = """
import sys, time
from anyorder.cli.main import main
from anyorder.data import writer
add = writer.CorpusWriter.add
def slow(self, encoded):
    add(self, encoded); self._tokens._file.flush(); print("writing", flush=True); time.sleep(60)
writer.CorpusWriter.add = slow
sys.exit(main(["prepare", "text.txt", "--out", "made", "--vocab-size", "100"]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_an_interrupted_prepare(anyorder: Callable, recipe: Path, signum: int, code: int) -> None:
    Path("text.txt").write_text(prose(documents=6, words=400))
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_PREPARE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    time.sleep(0.1)
    process.send_signal(signum)
    _, err = process.communicate(timeout=30)
    assert process.returncode == code
    assert "Traceback" not in err
    if signum == signal.SIGINT:
        assert err.splitlines()[-1] == "interrupted"
        assert sorted(file.name for file in Path().iterdir()) == ["small.yaml", "text.txt"]
    assert not Path("made").exists()
    assert anyorder("prepare", "text.txt", "--out", "made", "--vocab-size", 100).code == 0
    assert sorted(file.name for file in Path().iterdir()) == ["made", "small.yaml", "text.txt"]
