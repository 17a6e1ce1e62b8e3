import hashlib
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from naive_corpus import DATA, documents, many

import anyorder.data.preparation as preparation
from anyorder.core import DataError
from anyorder.data import Corpus, Tokenizer, clean, prepare, sentences
from anyorder.data.documents import Passage


def contents(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


def test_tokens_equal_a_naive_encoding(tmp_path: Path, tokenizer: Tokenizer) -> None:
    corpus = prepare([DATA / "a.txt", DATA / "b.txt"], tmp_path / "c", tokenizer=tokenizer, progress=False)
    expected, ends, place = [], [], 0
    for name in ("a.txt", "b.txt"):
        document = []
        for paragraph in (DATA / name).read_text(encoding="utf-8").split("\n\n"):
            for sentence in sentences(clean(paragraph)):
                document += tokenizer.encode(sentence)
                ends.append(place + len(document))
            assert document[-len(tokenizer.encode(paragraph)) :] == tokenizer.encode(paragraph)
        document.append(tokenizer.vocab.eod)
        ends[-1] += 1
        place += len(document)
        expected.append(document)
    assert documents(corpus) == expected
    assert corpus.split("train").sentence_ends.tolist() == ends
    counts = corpus.manifest.counts
    assert counts["tokens"] == place
    assert counts["documents"] == 2
    assert counts["sentences"] == len(ends)
    assert counts["bytes"] == int(tokenizer.piece_bytes[np.concatenate(expected)].sum())
    assert counts["unknown"] == sum(document.count(0) for document in expected)


def official_stream(path: Path, tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """What ``data_utils.py`` makes of a file of sentences: ids and alternating sentence numbers."""
    ids, sentence, current = [], [], 1
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip():
            pieces = tokenizer.encode(line)
        else:
            pieces, current = [tokenizer.vocab.eod], 1 - current
        ids += pieces
        sentence += [current] * len(pieces)
        current = 1 - current
    return ids, sentence


@pytest.mark.parametrize("run", ["uni", "bi"])
def test_lines_as_sentences_equal_the_official_stream(tmp_path: Path, tokenizer: Tokenizer, run: str) -> None:
    golden = np.load(DATA / f"data_records_{run}.npz")
    golden_ids, golden_sentence = golden["stream_ids"].tolist(), golden["stream_sent_ids"].astype(int)
    order = [DATA / "b.txt", DATA / "a.txt"]
    streams = [official_stream(path, tokenizer) for path in order]
    if golden_ids[:50] != streams[0][0][:50]:
        order, streams = order[::-1], streams[::-1]
    assert golden_ids == streams[0][0] + streams[1][0]

    corpus = prepare(
        order, tmp_path / "c", tokenizer=tokenizer, documents="blank_line", valid_fraction=0,
        max_document_pieces=None, progress=False,
    )  # fmt: skip
    # Two differences on purpose: the end of a file ends its document, and two blank lines are one.
    eod = tokenizer.vocab.eod
    expected, borders = [], []
    for ids, sentence in streams:
        for number, token in enumerate(ids):
            if token == eod and ids[number - 1] == eod:
                continue
            if number and sentence[number] != sentence[number - 1] and ids[number - 1] != eod:
                borders.append(len(expected))
            expected.append(token)
            if token == eod:
                borders.append(len(expected))
        if expected[-1] != eod:
            expected.append(eod)
            borders.append(len(expected))
    assert np.concatenate(documents(corpus)).tolist() == expected
    assert corpus.split("train").sentence_ends.tolist() == borders
    assert len(expected) - len(golden_ids) in (0, 1)
    assert abs(int((np.diff(golden_sentence) != 0).sum()) + 1 - len(borders)) <= 1


def test_workers_do_not_change_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyorder.data.encode._CHUNK", 2000)
    source = many(tmp_path / "x.jsonl")
    for workers in (1, 3):
        prepare(source, tmp_path / f"c{workers}", vocab_size=300, workers=workers, progress=False)
    assert contents(tmp_path / "c1") == contents(tmp_path / "c3")


def test_place_of_the_files_does_not_change_the_result(tmp_path: Path, tokenizer: Tokenizer) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        prepare(many(tmp_path / name / "x.jsonl"), tmp_path / name / "c", tokenizer=tokenizer, progress=False)
    assert contents(tmp_path / "here" / "c") == contents(tmp_path / "there" / "c")
    assert str(tmp_path) not in (tmp_path / "here" / "c" / "manifest.json").read_text()


def test_second_run_says_so_and_does_nothing(
    tmp_path: Path, tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = many(tmp_path / "x.jsonl")
    prepare(source, tmp_path / "c", tokenizer=tokenizer)
    assert "300 documents" in capsys.readouterr().err
    monkeypatch.setattr(preparation, "CorpusWriter", None)
    prepare(source, tmp_path / "c", tokenizer=tokenizer)
    assert "already prepared from the same sources with the same settings" in capsys.readouterr().err


def test_other_content_is_never_replaced_unasked(tmp_path: Path, tokenizer: Tokenizer) -> None:
    source, out = many(tmp_path / "x.jsonl"), tmp_path / "c"
    prepare(source, out, tokenizer=tokenizer, progress=False)
    before = contents(out)
    with pytest.raises(DataError, match=r"holds another corpus \(it differs in seed\)"):
        prepare(source, out, tokenizer=tokenizer, seed=1, progress=False)
    with pytest.raises(DataError, match=r"it differs in sources\)"):
        prepare(many(source, 200), out, tokenizer=tokenizer, progress=False)
    assert contents(out) == before
    prepare(source, out, tokenizer=tokenizer, overwrite=True, progress=False)
    assert Corpus.open(out).manifest.counts["documents"] == 200
    (out / "thesis.txt").write_text("mine")
    with pytest.raises(DataError, match=r"no part of a corpus \(thesis\.txt\)"):
        prepare(source, out, tokenizer=tokenizer, overwrite=True, progress=False)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(DataError, match="holds other files and no corpus"):
            prepare(source, tmp_path / "home", tokenizer=tokenizer, overwrite=overwrite, progress=False)
    with pytest.raises(DataError, match="is a file"):
        prepare(source, source, tokenizer=tokenizer, progress=False)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failure_leaves_nothing(tmp_path: Path, tokenizer: Tokenizer, workers: int) -> None:
    source = many(tmp_path / "x.jsonl")
    with source.open("a") as file:
        file.write('\n{"text": 5}')
    with pytest.raises(DataError, match=r"x\.jsonl:301: field 'text' must be a string"):
        prepare(source, tmp_path / "c", tokenizer=tokenizer, workers=workers, progress=False)
    assert [file.name for file in tmp_path.iterdir()] == ["x.jsonl"]


@pytest.mark.parametrize("delay", [0.0, 0.15])
def test_a_killed_run_leaves_no_corpus_and_can_be_run_again(tmp_path: Path, tokenizer: Tokenizer, delay: float) -> None:
    source = many(tmp_path / "x.jsonl")
    script = textwrap.dedent(f"""
        import time
        from anyorder.data import writer, prepare
        add = writer.CorpusWriter.add
        def slow(self, encoded):
            add(self, encoded); self._tokens._file.flush(); print("writing", flush=True); time.sleep(60)
        writer.CorpusWriter.add = slow
        prepare({str(source)!r}, {str(tmp_path / "c")!r}, tokenizer={str(DATA / "spiece.model")!r}, progress=False)
    """)
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"writing\n"
    time.sleep(delay)
    left = [file for file in tmp_path.iterdir() if file.name.startswith(".c.partial")]
    assert len(left) == 1
    prepare(source, tmp_path / "c", tokenizer=tokenizer, progress=False)  # meanwhile: does not disturb a living one
    assert left[0].exists()
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    expected = contents(tmp_path / "c")
    for file in (tmp_path / "c").iterdir():
        file.unlink()
    prepare(source, tmp_path / "c", tokenizer=tokenizer, progress=False)
    assert contents(tmp_path / "c") == expected
    assert sorted(file.name for file in tmp_path.iterdir()) == ["c", "x.jsonl"]


def test_empty_corpora_are_refused(tmp_path: Path, tokenizer: Tokenizer) -> None:
    (tmp_path / "x.txt").write_text(" \n\n \f \n")
    for chosen in (None, tokenizer):
        with pytest.raises(DataError, match=r"x\.txt: no text in the sources"):
            prepare(tmp_path / "x.txt", tmp_path / "c", tokenizer=chosen, progress=False)
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"valid_fraction": 1.0}, "valid_fraction is 1.0; allowed: 0 to less than 1"),
        ({"documents": "page"}, "documents is 'page'; allowed: 'form_feed', 'file', 'blank_line'"),
        ({"max_document_pieces": 1}, "max_document_pieces is 1; it must be at least 2"),
        ({"workers": 0}, "workers is 0; it must be at least 1"),
    ],
)
def test_bad_settings_are_named(tmp_path: Path, settings: dict, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        prepare(DATA / "a.txt", tmp_path / "c", progress=False, **settings)


def test_eop_ends_every_paragraph(tmp_path: Path, tokenizer: Tokenizer) -> None:
    (tmp_path / "x.txt").write_text("One here. Two.\n\nThree\fFour")
    corpus = prepare(tmp_path / "x.txt", tmp_path / "c", tokenizer=tokenizer, eop=True, progress=False)
    text = [tokenizer.decode(document).split("<eop>") for document in documents(corpus)]
    assert text == [["One here. Two.", " Three", ""], ["Four", ""]]
    assert all(document[-2:] == [8, 7] for document in documents(corpus))


def test_lower_casing_keeps_sentence_borders(tmp_path: Path) -> None:
    borders = []
    for lower in (False, True):
        tokenizer = Tokenizer.load(DATA / "spiece.model", lower=lower)
        corpus = prepare(DATA / "a.txt", tmp_path / f"{lower}", tokenizer=tokenizer, progress=False)
        borders.append(corpus.manifest.counts["sentences"])
        assert Corpus.open(tmp_path / f"{lower}").tokenizer.lower is lower
    assert borders[0] == borders[1] > 20


def test_a_line_of_ten_million_characters(tmp_path: Path, tokenizer: Tokenizer) -> None:
    (tmp_path / "x.txt").write_text("abc " * 1_250_000 + "x" * 5_000_000)
    corpus = prepare(
        tmp_path / "x.txt", tmp_path / "c", tokenizer=tokenizer, max_document_pieces=None, workers=2, progress=False
    )
    assert corpus.manifest.counts["documents"] == 1
    assert abs(corpus.manifest.counts["bytes"] - 10_000_000) < 2000  # a word is cut every 8192 characters


def test_progress_is_plain_lines_off_a_terminal(
    tmp_path: Path, tokenizer: Tokenizer, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anyorder.data.progress._EVERY", 0.0)
    prepare(many(tmp_path / "x.jsonl", 3), tmp_path / "c", tokenizer=tokenizer)
    out, err = capfd.readouterr()
    assert out == ""
    assert "encoding: 100 %" in err.splitlines()
    assert "\x1b" not in err


def test_training_sample_is_bounded_and_uniform() -> None:
    passages = [Passage(f"{n:05d} " * 20, True) for n in range(2000)]
    sample = preparation._sample(passages, characters=20_000, seed=1)
    assert 15_000 < sum(map(len, sample)) <= 20_000
    numbers = [int(text[:5]) for text in sample]
    assert numbers == sorted(numbers)
    assert 700 < np.mean(numbers) < 1300
    assert sample == preparation._sample(iter(passages), characters=20_000, seed=1)
    assert sample != preparation._sample(passages, characters=20_000, seed=2)
