"""Inputs for fine-tuning: equal to the recorded official ones, and laws of the parts they are made of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anyorder.core import DataError
from anyorder.data import Tokenizer
from anyorder.data.features import (
    Aligned,
    Question,
    Row,
    SpanWindow,
    align,
    collate,
    encode_choices,
    encode_pair,
    encode_question,
    read_squad,
    with_option,
)
from anyorder.data.features.alignment import nearest
from anyorder.data.features.pair import fit
from anyorder.data.features.spans import windows

DATA = Path(__file__).parent / "data"
TOKENIZER = Tokenizer.load(DATA / "spiece.model")
PAIRS = json.loads((DATA / "features_classification.json").read_text())["cases"]
RACE = json.loads((DATA / "features_race.json").read_text())
SQUAD = json.loads((DATA / "features_squad.json").read_text())


def fields(row: Row) -> dict[str, list[int]]:
    return {"input_ids": list(row.ids), "input_mask": [int(p) for p in row.padding], "segment_ids": list(row.segment)}


@pytest.mark.parametrize("case", PAIRS, ids=range(len(PAIRS)))
def test_equals_the_official_pairs(case: dict) -> None:
    row = encode_pair(TOKENIZER, case["text_a"], case["text_b"], length=case["max_seq_length"])
    assert fields(row) == {key: case[key] for key in fields(row)}


def race_rows(case: dict) -> tuple[list[Row], list[dict[str, list[int]]]]:
    length = RACE["max_seq_length"]
    answers = [with_option(case["question"], option) for option in case["options"]]
    assert answers == case["qa_list"]
    rows = encode_choices(TOKENIZER, case["context"], answers, length=length, answer_length=RACE["max_qa_length"])
    official = [
        {key: case[key][i * length : (i + 1) * length] for key in ("input_ids", "input_mask", "segment_ids")}
        for i in range(4)
    ]
    return rows, official


def test_equals_the_official_choices() -> None:
    rows, official = race_rows(RACE["cases"][0])
    assert [fields(row) for row in rows] == official


def test_a_short_context_does_not_gather_the_other_options() -> None:
    """In the recording it does: there every option's sequence begins with the one before it, which is a slip."""
    rows, official = race_rows(RACE["cases"][1])
    assert fields(rows[0]) == official[0]
    context = TOKENIZER.encode(RACE["cases"][1]["context"])
    before = context
    for number, (row, recorded) in enumerate(zip(rows, official, strict=True)):
        ours = [i for i, padding in zip(row.ids, row.padding, strict=True) if not padding]
        theirs = [i for i, padding in zip(recorded["input_ids"], recorded["input_mask"], strict=True) if not padding]
        answer = TOKENIZER.encode(RACE["cases"][1]["qa_list"][number])[-RACE["max_qa_length"] :]
        assert ours == [*context, 4, *answer, 4, 3]
        assert (ours == theirs) == (number == 0)
        assert theirs == [*before, 4, *answer, 4, 3]
        before = theirs


def official_window(window: SpanWindow, paragraph: Aligned, *, labelled: bool) -> dict[str, object]:
    part = slice(window.offset, window.offset + window.pieces)
    return {
        **fields(window.row),
        "p_mask": [int(not allowed) for allowed in window.allowed],
        "paragraph_len": window.pieces,
        "cls_index": window.cls_index,
        "tok_start_to_orig_index": list(paragraph.first[part]),
        "tok_end_to_orig_index": list(paragraph.last[part]),
        "token_is_max_context": {str(place): full for place, full in enumerate(window.full_context)},
        "start_position": window.start,
        "end_position": window.end,
        "is_impossible": labelled and window.impossible,
    }


@pytest.mark.parametrize("split", ["train", "predict"])
def test_equals_the_official_windows(split: str) -> None:
    arguments, recorded = SQUAD["args"], iter(SQUAD[split])
    compared = 0
    for number, question in enumerate(read_squad(DATA / "features_squad_input.json")):
        paragraph = Aligned.of(TOKENIZER, question.paragraph)
        found = encode_question(
            TOKENIZER,
            question,
            length=arguments["max_seq_length"],
            stride=arguments["doc_stride"],
            question_length=arguments["max_query_length"],
            labelled=split == "train",
            paragraph=paragraph,
        )
        for index, window in enumerate(found):
            expected = next(recorded)
            ours = official_window(window, paragraph, labelled=split == "train")
            assert ours == {key: expected[key] for key in ours}
            assert expected["doc_span_index"] == index
            assert expected["example_index"] in (number, None)
            compared += 1
    assert next(recorded, None) is None
    assert compared == 20


def test_the_text_of_a_labelled_window_covers_the_answer() -> None:
    for question in read_squad(DATA / "features_squad_input.json"):
        paragraph = Aligned.of(TOKENIZER, question.paragraph)
        for window in encode_question(TOKENIZER, question, length=160, stride=48, paragraph=paragraph):
            if not window.impossible:
                start, length = question.answers[0]
                text = window.text(paragraph, window.start, window.end)
                assert question.paragraph[start : start + length] in text
                assert window.allowed[window.start]
                assert window.allowed[window.end]


def slow_fit(a: list[int], b: list[int], room: int) -> tuple[int, int]:
    a, b = list(a), list(b)
    while len(a) + len(b) > room:
        (a if len(a) > len(b) else b).pop()
    return len(a), len(b)


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 40))
def test_a_pair_is_cut_token_by_token(a: int, b: int, room: int) -> None:
    assert fit([0] * a, [0] * b, room=room) == slow_fit([0] * a, [0] * b, room)


@given(st.text("ab c", min_size=1, max_size=12), st.text("ab c", min_size=1, max_size=12))
def test_an_alignment_matches_equal_characters_in_order(text: str, pieces: str) -> None:
    try:
        forth, back = align(text, pieces)
    except DataError:
        return
    pairs = [(i, j) for i, j in enumerate(forth) if j is not None]
    assert all(text[i] == pieces[j] and back[j] == i for i, j in pairs)
    assert [j for _, j in pairs] == sorted({j for _, j in pairs})
    assert len(pairs) == sum(place is not None for place in back) >= 0.8 * len(text)


@given(st.text("abc ", min_size=6, max_size=30), st.data())
def test_an_alignment_finds_the_longest_common_subsequence(text: str, data: st.DataObject) -> None:
    dropped = data.draw(st.sets(st.integers(0, len(text) - 1), max_size=1))
    pieces = "".join(c for i, c in enumerate(text) if i not in dropped)
    forth, _ = align(text, pieces)
    assert sum(place is not None for place in forth) == len(pieces)


def test_what_cannot_be_found_again_is_refused() -> None:
    with pytest.raises(DataError, match="0 of 4 characters"):
        align("abcd", "wxyz")


@given(st.lists(st.one_of(st.none(), st.just(0)), min_size=1, max_size=10), st.data())
def test_a_gap_is_filled_from_its_edges(marks: list[int | None], data: st.DataObject) -> None:
    places, last = [], -1
    for mark in marks:
        last += data.draw(st.integers(1, 3)) if mark is not None else 0
        places.append(last if mark is not None else None)
    if all(place is None for place in places):
        return
    for at, place in enumerate(places):
        begin, end = (nearest(places, at, begins=begins, size=last + 2) for begins in (True, False))
        if place is not None:
            assert begin == end == place
        else:
            before = max((p for p in places[:at] if p is not None), default=-1)
            after = min((p for p in places[at:] if p is not None), default=last + 2)
            assert before <= begin <= after or begin == 0
            assert before <= end <= after


@given(st.integers(0, 60), st.integers(1, 20), st.integers(1, 20))
def test_windows_cover_every_piece_whatever_the_stride(count: int, room: int, stride: int) -> None:
    bounds = windows(count, room=room, stride=stride)
    assert {piece for begin, stop in bounds for piece in range(begin, stop)} == set(range(count))
    assert all(stop - begin <= room for begin, stop in bounds)


def test_a_batch_leaves_out_common_padding() -> None:
    rows = [encode_pair(TOKENIZER, text, length=12) for text in ("I lost.", "I")]
    batch = collate(rows)
    real = [sum(not padding for padding in row.padding) for row in rows]
    assert batch.length == max(real)
    assert (batch.doc == 0).sum(1).tolist() == real
    assert batch.ids[:, -1].tolist() == [TOKENIZER.vocab.cls] * 2
    assert bool(batch.fixed.all())
    batch.check(vocab_size=TOKENIZER.vocab.size)
    assert torch.equal(batch.ids[0, -real[0] :], torch.tensor(rows[0].ids[-real[0] :]))
    with pytest.raises(DataError, match="one length"):
        collate([rows[0], encode_pair(TOKENIZER, "I", length=9)])
    with pytest.raises(DataError, match="at least one row"):
        collate([])


def test_settings_without_room_are_refused() -> None:
    with pytest.raises(DataError, match="no room for text"):
        encode_pair(TOKENIZER, "a", "b", length=3)
    with pytest.raises(DataError, match="no room for context"):
        encode_choices(TOKENIZER, "a", ["b"], length=16)
    with pytest.raises(DataError, match="leave no room"):
        encode_question(TOKENIZER, Question(name="q", paragraph="a", text="b"), length=4)
    with pytest.raises(DataError, match="SQuAD"):
        read_squad({"data": [{"paragraphs": [{}]}]})
