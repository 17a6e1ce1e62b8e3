"""XLNet's pretraining data against what the official code made: draw by draw, from seeds, and in its own files."""

from __future__ import annotations

import json
import shutil
import struct
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyorder.core import DataError
from anyorder.core.formats import WireError, crc32c, mask
from anyorder.data import Tokenizer
from anyorder.data.xlnet import (
    MarkedText,
    MarkedTokens,
    OfficialSpans,
    Record,
    RecordFile,
    RecordLayout,
    RecordRows,
    SeededDraws,
    batchify,
    prepare_records,
    read_example,
    record_files,
    write_example,
    write_records,
)

DATA = Path(__file__).parent / "data"
RUNS = json.loads((DATA / "data_runs.json").read_text())
MASKS = np.load(DATA / "data_sample_mask.npz")
FILE = DATA / "records" / RUNS["uni"]["record_file"]
INFO = DATA / "records" / RUNS["uni"]["record_info_file"]
FIELDS = ("input", "target", "seg_id", "is_masked")


@dataclass
class Recorded:
    """The official draws in their order: 0 a number, 1 a cut point, 2 a place, 3 a length, 4 left context, 5 a fill."""

    kinds: list[int]
    values: list[float]
    most: int = 5
    cuts: list[int] = field(default_factory=list)

    def _next(self, kind: int) -> float:
        assert self.kinds.pop(0) == kind
        return self.values.pop(0)

    def negative(self) -> bool:
        return self._next(0) < 0.5

    def choice(self, count: int) -> int:
        return self.cuts.index(int(self._next(1)))

    def place(self, count: int) -> int:
        return self._in(count, 2)

    def gram(self, most: int) -> int:
        assert most == self.most
        return int(self._next(3))

    def left(self, count: int) -> int:
        return self._in(count, 4)

    def fill(self, count: int) -> int:
        return self._in(count, 5)

    def _in(self, count: int, kind: int) -> int:
        value = int(self._next(kind))
        assert 0 <= value < count
        return value


def part(arrays: np.lib.npyio.NpzFile, name: str, number: int) -> np.ndarray:
    offsets = arrays[f"{name.removesuffix('_kind').removesuffix('_value')}_off"]
    return arrays[name][offsets[number] : offsets[number + 1]]


def tokenizer_of(run: str) -> Tokenizer:
    return Tokenizer.load(DATA / "spiece.model", lower=RUNS[run]["args"]["uncased"])


def layout_of(run: str) -> RecordLayout:
    flags = RUNS[run]["args"]
    return RecordLayout(
        rows=flags["bsz_per_host"],
        length=flags["seq_len"],
        reuse=flags["reuse_len"],
        bidirectional=flags["bi_data"],
        cores=flags["num_core_per_host"],
        targets=flags["num_predict"],
        spans=OfficialSpans(alpha=flags["mask_alpha"], beta=flags["mask_beta"]),
    )


def text_of(run: str) -> MarkedTokens:
    paths = [DATA / "a.txt", DATA / "b.txt"]
    eod = RUNS[run]["args"]["use_eod"]
    return MarkedTokens.read_all(paths, tokenizer_of(run), order=RUNS[run]["shard_order"], eod=eod)


def records_of(run: str, draws: object) -> list[Record]:
    tokenizer = tokenizer_of(run)
    return list(
        layout_of(run).records(text_of(run), vocab=tokenizer.vocab, starts_word=tokenizer.starts_word, draws=draws)
    )


@pytest.mark.parametrize("seeded", [False, True], ids=["recorded draws", "seeds"])
def test_targets_equal_the_official_ones(seeded: bool) -> None:
    starts = tokenizer_of("uni").starts_word
    for number, (reverse, goal, alpha, beta, most, seed) in enumerate(MASKS["args"].tolist()):
        ids = part(MASKS, "seg", number)
        draws: SeededDraws | Recorded = SeededDraws(pairs=0, spans=seed)
        if not seeded:
            kinds, values = (part(MASKS, f"draw_{name}", number).tolist() for name in ("kind", "value"))
            draws = Recorded(kinds, values, most=most)
        chosen = OfficialSpans(alpha=alpha, beta=beta, max_gram=most).choose(
            starts[ids], goal=None if goal < 0 else goal, draws=draws, backward=bool(reverse)
        )
        assert np.array_equal(chosen, part(MASKS, "mask", number)), number
        assert seeded or not draws.kinds
    assert number == 399


def test_batchify_equals_the_official_one() -> None:
    golden = np.load(DATA / "data_batchify.npz")
    cases = {name.split("/")[0] for name in golden.files}
    for case in cases:
        rows = int(golden[f"{case}/bsz"])
        assert np.array_equal(batchify(golden[f"{case}/data"], rows), golden[f"{case}/out"])
        assert np.array_equal(batchify(golden[f"{case}/sent_ids"], rows), golden[f"{case}/out_sent_ids"])
    assert len(cases) == 4


@pytest.mark.parametrize("run", sorted(RUNS))
def test_text_becomes_the_official_stream(run: str) -> None:
    golden, text = np.load(DATA / f"data_records_{run}.npz"), text_of(run)
    assert np.array_equal(text.ids, golden["stream_ids"])
    assert np.array_equal(text.mark, golden["stream_sent_ids"])


@pytest.mark.parametrize("run", sorted(RUNS))
def test_records_equal_the_official_ones_from_seeds_alone(run: str) -> None:
    flags = RUNS[run]["args"]
    draws = SeededDraws(pairs=RUNS[run]["python_random_seed"], spans=100 * flags["task"] + flags["pass_id"])
    assert draws.shards(2) == RUNS[run]["shard_order"]
    require_official(run, records_of(run, draws))


@pytest.mark.parametrize("run", sorted(RUNS))
def test_records_equal_the_official_ones_draw_by_draw(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    golden = np.load(DATA / f"data_records_{run}.npz")
    kinds, values = [], []
    for example in range(len(golden["input"])):
        for stage in ("split", "mask0", "mask1"):
            kinds += part(golden, f"{stage}_draw_kind", example).tolist()
            values += part(golden, f"{stage}_draw_value", example).tolist()
    draws = Recorded(kinds, values)
    borders = MarkedText.borders

    def note(text: MarkedText, begin: int, end: int) -> np.ndarray:
        found = borders(text, begin, end)
        draws.cuts = found.tolist()  # the recorded cut points are places; the protocol counts them
        return found

    monkeypatch.setattr(MarkedText, "borders", note)
    tokenizer, stream = tokenizer_of(run), text_of(run)
    made = layout_of(run).records(stream, vocab=tokenizer.vocab, starts_word=tokenizer.starts_word, draws=draws)
    records = [next(made) for _ in range(len(golden["input"]))] if draws.kinds else []
    require_official(run, records)


def require_official(run: str, records: list[Record]) -> None:
    golden = np.load(DATA / f"data_records_{run}.npz")
    for name in FIELDS:
        assert np.array_equal(np.stack([getattr(record, name) for record in records]), golden[name]), name
    assert [record.label for record in records] == golden["label"][:, 0].tolist()
    layout = layout_of(run)
    assert [layout.backward(n % layout.rows) for n in range(len(records))] == (golden["reverse"] > 0).tolist()


def test_the_official_file_is_read_and_written_to_the_byte(tmp_path: Path) -> None:
    golden, file = np.load(DATA / "data_records_uni.npz"), RecordFile(FILE)
    assert len(file) == len(golden["input"]) == 124
    for number in range(len(file)):
        example = read_example(file[number])
        assert set(example) == {*FIELDS, "label"}
        for name, values in example.items():
            assert np.array_equal(values, golden[name][number]), name
        assert write_example(example) == file[number]
    write_records(tmp_path / "copy", (file[number] for number in range(len(file))))
    assert (tmp_path / "copy").read_bytes() == FILE.read_bytes()


@given(st.dictionaries(st.text(max_size=4), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5), max_size=4))
def test_examples_read_back(features: dict[str, list[int]]) -> None:
    arrays = {name: np.array(values, dtype=np.int64) for name, values in features.items()}
    back = read_example(write_example(arrays))
    assert {name: values.tolist() for name, values in back.items()} == features


def test_an_unpacked_list_is_read_too() -> None:
    feature = b"\x1a\x05" + b"\x08\x07" + b"\x08\xac\x02"  # int64_list { value: 7 value: 300 }
    entry = b"\x0a\x01x" + b"\x12" + bytes([len(feature)]) + feature
    features = b"\x0a" + bytes([len(entry)]) + entry
    assert read_example(b"\x0a" + bytes([len(features)]) + features)["x"].tolist() == [7, 300]


@pytest.mark.parametrize("cut", [1, 5, 11, 12, 200, 47_000])
def test_a_file_cut_short_is_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "x.tfrecords"
    path.write_bytes(FILE.read_bytes()[:-cut])
    with pytest.raises(DataError, match=r"x\.tfrecords: cut short in record \d+") as caught:
        RecordFile(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("at", range(0, 420, 29))
def test_a_flipped_bit_is_noticed(tmp_path: Path, at: int) -> None:
    path, data = tmp_path / "x.tfrecords", bytearray(FILE.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"x\.tfrecords: (damaged|not a TFRecord file|cut short)"):
        _ = [RecordFile(path)[number] for number in range(3)]


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecords"
    path.write_text("just some text that is long enough")
    with pytest.raises(DataError, match="not a TFRecord file"):
        RecordFile(path)


def rows(path: Path = INFO, **changes: object) -> RecordRows:
    tokenizer = tokenizer_of("uni")
    sizes = {"rows": 4, "length": 64, "stride": 32} | changes
    return RecordRows(path, vocab=tokenizer.vocab, starts_word=tokenizer.starts_word, **sizes)


def test_rows_are_the_records_in_their_order() -> None:
    golden, data = np.load(DATA / "data_records_uni.npz"), rows()
    assert data.steps_per_epoch == 31
    for step in (0, 7, 30, 31):
        batch, wanted = data.batch(step), slice(step % 31 * 4, step % 31 * 4 + 4)
        assert np.array_equal(batch.ids, golden["input"][wanted])
        assert np.array_equal(batch.target, golden["is_masked"][wanted] > 0)
        assert np.array_equal(batch.segment, golden["seg_id"][wanted])
        assert np.array_equal(batch.labels["next_sentence"], golden["label"][wanted, 0])
        assert batch.fixed.sum() == 4 * 3
        assert batch.fresh.all() == (step in (0, 31))
        assert batch.direction is None
        assert batch.block[0].tolist() == [0] * 32 + [1] * 32
        batch.check(vocab_size=500)
    assert not rows(restart=False).batch(31).fresh.any()


def test_written_records_read_back_as_rows(tmp_path: Path) -> None:
    flags, tokenizer = RUNS["bi_2core"]["args"], tokenizer_of("bi_2core")
    info = prepare_records(
        [DATA / "a.txt", DATA / "b.txt"],
        tmp_path,
        tokenizer=tokenizer,
        layout=layout_of("bi_2core"),
        seed=RUNS["bi_2core"]["python_random_seed"],
        pass_id=flags["pass_id"],
    )
    assert info.name == RUNS["bi_2core"]["record_info_file"]
    assert [file.name for file in record_files(tmp_path)] == [RUNS["bi_2core"]["record_file"]]
    assert json.loads(info.read_text())["num_batch"] == RUNS["bi_2core"]["num_batch"]
    golden = np.load(DATA / "data_records_bi_2core.npz")
    data = rows(tmp_path, rows=8, bidirectional=True, cores=2)
    batches = [data.batch(step) for step in range(data.steps_per_epoch)]
    assert np.array_equal(np.concatenate([batch.ids for batch in batches]), golden["input"])
    directions = np.concatenate([batch.direction for batch in batches])
    assert np.array_equal(directions < 0, golden["reverse"] > 0)
    # A word's number changes where a piece begins one, in the order of the text.
    starts = tokenizer.starts_word
    for ids, word, direction in zip(batches[0].ids, batches[0].word, batches[0].direction, strict=True):
        turn = int(direction)
        assert np.array_equal(np.cumsum(starts[ids.numpy()[::turn]]), word.numpy()[::turn])
    with pytest.raises(DataError, match="there is a file of this name already"):
        prepare_records(
            [DATA / "a.txt"], tmp_path, tokenizer=tokenizer, layout=layout_of("bi_2core"), seed=0, pass_id=1
        )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"rows": 8}, "its name says bsz-4, and 8 is asked for"),
        ({"length": 128}, "its name says seqlen-64"),
        ({"stride": 16}, "its name says reuse-32"),
        ({"bidirectional": True}, "set bidirectional to false"),
        ({"rows": 3, "cores": 2}, "use a multiple of 2"),
    ],
)
def test_records_of_another_layout_are_refused(changes: dict, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        rows(**changes)


def test_content_is_held_against_the_arguments_too(tmp_path: Path) -> None:
    shutil.copy(FILE, tmp_path / "renamed.tfrecords")
    with pytest.raises(DataError, match="has 64 numbers in 'input', and length is 32"):
        rows(tmp_path, length=32, stride=16).batch(0)
    with pytest.raises(DataError, match="124 records are not whole batches of 5 rows"):
        rows(tmp_path, rows=5)
    tokenizer = tokenizer_of("uni")
    few = tokenizer.vocab.__class__(size=40)
    with pytest.raises(DataError, match="is this the tokenizer it was written with"):
        RecordRows(tmp_path, vocab=few, starts_word=tokenizer.starts_word, rows=4, length=64, stride=32).batch(0)


def test_missing_files_and_other_json_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no record_info-\*\.json and no \.tfrecords"):
        record_files(tmp_path)
    info = tmp_path / "record_info-x.json"
    info.write_text('{"filenames": ["gone.tfrecords"], "num_batch": 1}')
    with pytest.raises(DataError, match=r"not beside it: gone\.tfrecords"):
        record_files(info)
    info.write_text("[]")
    with pytest.raises(DataError, match="not an official record_info file"):
        record_files(info)


def test_a_record_that_is_no_example_is_named(tmp_path: Path) -> None:
    data = b"\x0a\x7f\x01"
    length = struct.pack("<Q", len(data))
    record = length + struct.pack("<I", mask(crc32c(length))) + data + struct.pack("<I", mask(crc32c(data)))
    (tmp_path / "x.tfrecords").write_bytes(record * 4)
    with pytest.raises(DataError, match=r"record 0 is no tf\.train\.Example: field 1 is cut short"):
        rows(tmp_path).batch(0)
    with pytest.raises(WireError):
        read_example(data)


def test_too_little_text_leaves_nothing_behind(tmp_path: Path) -> None:
    tokenizer = tokenizer_of("uni")
    (tmp_path / "x.txt").write_text("One line.\n")
    with pytest.raises(DataError, match="too few for one record in each of 4 rows"):
        prepare_records([tmp_path / "x.txt"], tmp_path / "out", tokenizer=tokenizer, layout=layout_of("uni"), seed=0)
    assert not list((tmp_path / "out").iterdir())
