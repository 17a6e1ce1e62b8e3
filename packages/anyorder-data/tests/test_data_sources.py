import csv
import gzip
import json
import tracemalloc
from pathlib import Path

import pytest

from anyorder.core import DataError
from anyorder.data.documents import Passage, read_passages
from anyorder.data.lines import read_lines
from anyorder.data.sources import find_sources

DOCUMENTS = ['First, "quoted" über\nline two\n\nSecond paragraph', "Only one — paragraph", "a\n\nb\n\nc"]
EXPECTED = [
    ['First, "quoted" über\nline two', "Second paragraph"],
    ["Only one — paragraph"],
    ["a", "b", "c"],
]


def grouped(passages: list[Passage]) -> list[list[str]]:
    documents: list[list[str]] = []
    for passage in passages:
        if passage.first:
            documents.append([])
        documents[-1].append(passage.text.rstrip("\n"))
    return documents


def read(source: Path | str, **options: object) -> list[list[str]]:
    passages: list[Passage] = []
    for found in find_sources(source):
        passages += read_passages(found, **{"text_field": "text", **options})  # type: ignore[arg-type]
    return grouped(passages)


def write(path: Path) -> Path:
    """The three documents in the format that the name asks for."""
    kind = path.name.split(".")[1]
    if kind == "txt":
        content = "\f".join(DOCUMENTS)
    elif kind == "jsonl":
        content = "\n".join(json.dumps({"id": n, "text": text}) for n, text in enumerate(DOCUMENTS)) + "\n\n"
    elif kind == "csv":
        with path.with_suffix(".tmp").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([["id", "text"], *([str(n), text] for n, text in enumerate(DOCUMENTS))])
        content = path.with_suffix(".tmp").read_text(encoding="utf-8")
        path.with_suffix(".tmp").unlink()
    data = content.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("name", ["x.txt", "x.txt.gz", "x.jsonl", "x.jsonl.gz", "x.csv", "x.csv.gz"])
def test_every_format_gives_the_same_documents(tmp_path: Path, name: str) -> None:
    assert read(write(tmp_path / name)) == EXPECTED


def test_parquet_and_data_sets_give_the_same_documents(tmp_path: Path) -> None:
    table = pytest.importorskip("pyarrow").table({"text": DOCUMENTS, "id": [0, 1, 2]})
    pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "x.parquet")
    assert read(tmp_path / "x.parquet") == EXPECTED
    datasets = pytest.importorskip("datasets")
    datasets.Dataset.from_dict({"text": DOCUMENTS}).save_to_disk(str(tmp_path / "set"))
    assert read(f"hf:{tmp_path / 'set'}") == EXPECTED
    with pytest.raises(DataError, match=r"hf:set: no field 'body' \(there are: 'text'\)"):
        read(f"hf:{tmp_path / 'set'}", text_field="body")
    with pytest.raises(DataError, match=r"x\.parquet: no field 'body' \(there are: 'id', 'text'\)"):
        read(tmp_path / "x.parquet", text_field="body")


def test_a_data_set_out_of_reach_is_explained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")

    def offline(*_: object, **__: object) -> None:
        raise ConnectionError("Couldn't reach the Hub\ndetails")

    monkeypatch.setattr(datasets, "load_dataset", offline)
    with pytest.raises(DataError, match=r"hf:owner/name: cannot load the data set: Couldn't reach the Hub; .*network"):
        find_sources("hf:owner/name")


def test_folders_are_read_recursively_in_order(tmp_path: Path) -> None:
    (tmp_path / "b" / ".hidden").mkdir(parents=True)
    (tmp_path / "b" / "2.txt").write_text("two")
    (tmp_path / "b" / "1.txt").write_text("one")
    (tmp_path / "a.jsonl").write_text('{"text": "zero"}')
    (tmp_path / "b" / ".hidden" / "x.txt").write_text("never")
    (tmp_path / "notes.md").write_text("never")
    assert read(tmp_path) == [["zero"], ["one"], ["two"]]
    names = [source.name for source in find_sources(tmp_path)]
    assert names == [f"{tmp_path.name}/{name}" for name in ("a.jsonl", "b/1.txt", "b/2.txt")]


def test_document_breaks(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("\ufeffone\ntwo\n\nthree\fx\n\n\n y \n")
    assert read(path) == [["one\ntwo", "three"], ["x", " y "]]
    assert read(path, documents="file") == [["one\ntwo", "three x", " y "]]
    assert read(path, documents="blank_line") == [["one", "two"], ["three\fx"], [" y "]]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("x.txt", b"fine\nna\xefve\n", r"x\.txt:2: byte 0xef at offset 7 is not UTF-8; convert the file"),
        ("x.txt", b"\xff\xfea\0", r"x\.txt:1: byte 0xff at offset 0"),
        (
            "x.txt.gz",
            gzip.compress(b"some text" * 99, mtime=0)[:-9],
            r"x\.txt\.gz: the gzip file is damaged or cut short",
        ),
        ("x.txt.gz", b"not gzip", r"x\.txt\.gz: the gzip file is damaged"),
        ("x.jsonl", b'{"text": "a"}\n{"text": 3}', r"x\.jsonl:2: field 'text' must be a string, not int"),
        (
            "x.jsonl",
            b'{"text": "a"}\n\n{"body": "b", "id": 1}',
            r"x\.jsonl:3: no field 'text' \(there are: 'body', 'id'\)",
        ),
        ("x.jsonl", b'{"text": "a"\n', r"x\.jsonl:1: not a JSON object: .* at column"),
        ("x.jsonl", b'["text"]\n', r"x\.jsonl:1: expected a JSON object"),
        ("x.jsonl", b'{"text": "\\ud800"}\n', r"x\.jsonl:1: half of a surrogate pair at character 0"),
        ("x.csv", b"id,body\n1,a\n", r"x\.csv:1: no field 'text' \(there are: 'body', 'id'\)"),
        ("x.csv", b"id,text\n1,a\n2\n", r"x\.csv:3: field 'text' must be a string, not NoneType"),
        ("x.csv", b'id,text\n1,"a\n', r"x\.csv:2: not CSV"),
        ("x.parquet", b"PAR", r"x\.parquet: not a Parquet file"),
        ("x.docx", b"", r"x\.docx: unknown kind of file; readable: \.txt"),
    ],
)
def test_bad_files_are_named_with_their_line(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    if name == "x.parquet":
        pytest.importorskip("pyarrow")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=problem) as caught:
        read(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_missing_sources_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.txt: no such file or folder"):
        find_sources(tmp_path / "nowhere.txt")
    with pytest.raises(DataError, match="holds nothing to read"):
        find_sources(tmp_path)
    with pytest.raises(DataError, match="no sources given"):
        find_sources([])


@pytest.mark.parametrize("unit", ["word ", "é", "日本"])
def test_a_very_long_line_comes_in_parts_without_loss(tmp_path: Path, unit: str) -> None:
    path = tmp_path / "long.txt"
    text = unit * (5_000_000 // len(unit.encode()))
    path.write_text(text + "\nlast\n", encoding="utf-8")
    tracemalloc.start()
    lines = []
    for line in read_lines(path, whole=False):
        lines.append((line.number, line.ends, len(line.text)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 24 << 20
    assert lines[-1] == (2, True, 5)
    assert [number for number, ends, _ in lines if ends] == [1, 2]
    assert sum(size for number, _, size in lines if number == 1) == len(text) + 1
    assert "".join(line.text for line in read_lines(path, whole=False)) == text + "\nlast\n"
    assert "".join(p.text for p in read_passages(find_sources(path)[0], text_field="text")) == text + "\nlast\n"


def test_progress_adds_up_to_the_size(tmp_path: Path) -> None:
    for name in ("x.txt", "x.jsonl.gz", "x.csv"):
        source = find_sources(write(tmp_path / name))[0]
        seen: list[int] = []
        list(read_passages(source, text_field="text", advance=seen.append))
        assert sum(seen) == source.size
