import json
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyorder.core import DataError
from anyorder.data import Tokenizer, clean, sentences, train_tokenizer
from anyorder.data.text import cut, paragraphs

DATA = Path(__file__).parent / "data"
TEXTS = [*(DATA / "a.txt").read_text(encoding="utf-8").splitlines(), 'Costs £5 – or €6 (or "7")?'] * 2


def golden() -> list[tuple[str, str, str, dict[str, list]]]:
    cases = []
    for entry in json.loads((DATA / "tokenize.json").read_text()):
        for name in ("cased", "cased_keepacc", "lower", "lower_keepacc"):
            cases.append(("spiece.model", name, entry["text"], entry[name]))
    for entry in json.loads((DATA / "tokenize_digits.json").read_text()):
        cases.append(("digits.model", "cased", entry["text"], entry))
    return cases


def test_equals_the_official_tokenization() -> None:
    cases = golden()
    assert len(cases) > 100
    recut = 0
    for model, name, text, expected in cases:
        tokenizer = Tokenizer.load(DATA / model, lower="lower" in name, keep_accents="keepacc" in name)
        if "clean" in expected:
            assert tokenizer.clean(text) == expected["clean"]
        assert tokenizer.pieces(text) == expected["pieces"], text
        assert tokenizer.encode(text) == expected["ids"], text
        recut += expected["pieces"] != expected["raw_spm_pieces"]
    assert recut > 5  # the digit-comma rule was at work


def test_clean_up_can_keep_white_space() -> None:
    for entry in json.loads((DATA / "tokenize.json").read_text()):
        assert clean(entry["text"], collapse_space=False) == entry["no_remove_space"]


def test_word_starts_equal_the_official_ones() -> None:
    tokenizer = Tokenizer.load(DATA / "spiece.model")
    expected = json.loads((DATA / "pieces.json").read_text())
    assert tokenizer.all_pieces == expected["pieces"]
    assert tokenizer.starts_word.tolist() == expected["is_start"]


def test_plain_style_leaves_text_and_pieces_alone() -> None:
    tokenizer = Tokenizer.load(DATA / "digits.model", style="plain")
    for entry in json.loads((DATA / "tokenize_digits.json").read_text()):
        assert tokenizer.pieces(entry["text"]) == entry["raw_spm_pieces"]
    assert Tokenizer.load(DATA / "spiece.model", style="plain", lower=True).clean(" Ä  b ") == " ä  b "


def test_special_ids_are_xlnets() -> None:
    tokenizer = train_tokenizer(TEXTS, vocab_size=200)
    assert tokenizer.all_pieces[:17] == [
        "<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>",
        ".", "(", ")", '"', "-", "–", "£", "€",
    ]  # fmt: skip
    vocab = tokenizer.vocab
    assert (vocab.size, vocab.cls, vocab.sep, vocab.pad, vocab.mask, vocab.eod, vocab.eop) == (200, 3, 4, 5, 6, 7, 8)


def test_training_is_deterministic_and_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    first = train_tokenizer(TEXTS, vocab_size=200)
    assert first.model == train_tokenizer(iter(TEXTS), vocab_size=200).model
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("texts", "vocab_size", "problem"),
    [
        ([], 100, "no text"),
        ([" \n "], 100, "no text"),
        (["hello world"], 5, "special symbols alone need 18"),
        (["abcdefghijklmnopqrstuvwxyz"], 20, "too small for the characters"),
    ],
)
def test_training_says_what_is_wrong(texts: list[str], vocab_size: int, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        train_tokenizer(texts, vocab_size=vocab_size)


def test_the_largest_vocabulary_named_in_the_error_works() -> None:
    with pytest.raises(DataError, match="the most is") as caught:
        train_tokenizer(TEXTS, vocab_size=8000)
    most = int(str(caught.value).split("the most is ")[1].split(":")[0])
    assert train_tokenizer(TEXTS, vocab_size=most).vocab.size == most


def test_a_model_without_the_special_symbols_is_refused(tmp_path: Path) -> None:
    import io

    from sentencepiece import SentencePieceTrainer

    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS), model_writer=model, vocab_size=200, user_defined_symbols=["<sep>"], minloglevel=2
    )
    (tmp_path / "other.model").write_bytes(model.getvalue())
    with pytest.raises(
        DataError, match=r"other\.model: the model has no <cls>, <pad>, <mask>, <eod>, <eop>; train one"
    ):
        Tokenizer.load(tmp_path / "other.model")


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.model").write_bytes(b"nonsense")
    with pytest.raises(DataError, match="not a SentencePiece model"):
        Tokenizer.load(tmp_path)
    with pytest.raises(DataError, match="cannot read the tokenizer"):
        Tokenizer.load(tmp_path / "nowhere.model")
    with pytest.raises(DataError, match="allowed: 'xlnet', 'plain'"):
        Tokenizer.load(DATA / "spiece.model", style="fancy")  # type: ignore[arg-type]


def test_decode_inverts_encode_and_names_a_stray_id() -> None:
    tokenizer = Tokenizer.load(DATA / "spiece.model")
    text = 'He said "no" (twice) - and left.'
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.decode(np.array([4, 5, 6, 7])) == ""
    with pytest.raises(DataError, match="token id 500 is outside the vocabulary of 500"):
        tokenizer.decode([1, 500])


@given(st.text(alphabet="abcdefghijklm nop.(),\"-£–€ '0123", max_size=60))
def test_piece_bytes_add_up_to_the_bytes_of_the_text(text: str) -> None:
    tokenizer = Tokenizer.load(DATA / "spiece.model")
    ids = tokenizer.encode(text)
    cleaned = tokenizer.clean(text)
    if tokenizer.vocab.unk not in ids:
        expected = len(cleaned.encode()) + 1 if cleaned else 0  # one for the space before the first word
        assert int(tokenizer.piece_bytes[ids].sum()) == expected
    assert tokenizer.piece_bytes[list(tokenizer.vocab.control)].tolist() == [1, 0, 0, 0, 0, 0, 0]


@given(st.text(max_size=200))
def test_clean_up_leaves_no_accent_and_no_line_break(text: str) -> None:
    cleaned = clean(text)
    assert not any(unicodedata.combining(character) for character in cleaned)
    assert cleaned.splitlines() in ([], [cleaned])


def test_sentences_end_at_punctuation() -> None:
    text = 'Mr. Weston came. "Did he?" she said. No! He stayed (alone.) At 5.30 p.m. then... and late. J. J. Smith left'
    assert sentences(text) == [
        "Mr. Weston came.",
        '"Did he?" she said.',
        "No!",
        "He stayed (alone.)",
        "At 5.30 p.m. then... and late.",
        "J. J. Smith left",
    ]


@given(st.text(alphabet="aB .!?\"'M r0", max_size=80))
def test_sentences_lose_nothing(text: str) -> None:
    cleaned = clean(text)
    assert " ".join(sentences(cleaned)) == cleaned


@given(st.text(alphabet="ab \n", max_size=60), st.integers(1, 9))
def test_cut_loses_nothing_and_keeps_the_limit(text: str, limit: int) -> None:
    parts = list(cut(text, limit))
    assert "".join(parts) == text
    assert all(len(part) <= limit for part in parts)


def test_paragraphs_are_separated_by_blank_lines() -> None:
    assert paragraphs("one\ntwo\r\n\r\nthree\n \t\n\n four \n") == ["one\ntwo", "three", "four \n"]
    assert paragraphs(" \n\n ") == []
