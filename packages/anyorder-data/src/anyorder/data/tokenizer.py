"""A SentencePiece model with XLNet's clean-up and special symbols."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from anyorder.core import DataError, Vocab

from .text import clean

SPACE = "▁"
_ASCII_MARKS = frozenset('!"#$%&()*+,-./:;?@[\\]^_`{|}~')  # single pieces that begin a word; the apostrophe does not
_SPECIALS = {"cls": "<cls>", "sep": "<sep>", "pad": "<pad>", "mask": "<mask>", "eod": "<eod>", "eop": "<eop>"}

Style = Literal["xlnet", "plain"]


class Tokenizer:
    """Text to ids and back.

    Args:
        model: the serialised SentencePiece model.
        name: what to call it in errors.
        style: ``"xlnet"`` cleans text up and re-cuts pieces such as ``2000,`` (a digit before a final comma) so that
            the comma is a piece of its own, as the released models expect; ``"plain"`` does neither.
        lower, keep_accents: switches of the clean-up (``clean``).

    Raises:
        DataError: not a SentencePiece model, or one without the special symbols.
    """

    def __init__(
        self,
        model: bytes,
        *,
        name: str = "the tokenizer",
        style: Style = "xlnet",
        lower: bool = False,
        keep_accents: bool = False,
    ) -> None:
        from sentencepiece import SentencePieceProcessor

        if style not in ("xlnet", "plain"):
            raise DataError(f"tokenizer style {style!r} is unknown; allowed: 'xlnet', 'plain'")
        self.name, self.style, self.lower, self.keep_accents = name, style, lower, keep_accents
        self.model = model
        try:
            self._processor: Any = SentencePieceProcessor(model_proto=model)
        except Exception as error:
            raise DataError(f"{name}: not a SentencePiece model") from error
        self.vocab = self._read_vocab()

    @classmethod
    def load(
        cls, path: str | Path, *, style: Style = "xlnet", lower: bool = False, keep_accents: bool = False
    ) -> Tokenizer:
        """Read a ``.model`` file, or a folder that holds ``tokenizer.model`` or ``spiece.model``."""
        path = Path(path)
        if path.is_dir():
            names = [path / "tokenizer.model", path / "spiece.model"]
            path = next((name for name in names if name.is_file()), names[0])
        try:
            model = path.read_bytes()
        except OSError as error:
            raise DataError(f"{path}: cannot read the tokenizer: {error.strerror}") from error
        return cls(model, name=str(path), style=style, lower=lower, keep_accents=keep_accents)

    def _read_vocab(self) -> Vocab:
        processor = self._processor
        unk = processor.unk_id()
        ids = {field: processor.piece_to_id(piece) for field, piece in _SPECIALS.items()}
        missing = [_SPECIALS[field] for field, number in ids.items() if number == unk]
        for field, number in (("<unk>", unk), ("<s>", processor.bos_id()), ("</s>", processor.eos_id())):
            if number < 0:
                missing.append(field)
        if missing:
            raise DataError(
                f"{self.name}: the model has no {', '.join(missing)}; train one with `anyorder prepare`, or give "
                "SentencePiece control_symbols <cls>,<sep>,<pad>,<mask>,<eod> and user_defined_symbols <eop>"
            )
        return Vocab(size=processor.get_piece_size(), unk=unk, bos=processor.bos_id(), eos=processor.eos_id(), **ids)

    @property
    def settings(self) -> dict[str, str | bool]:
        """What, beside the model file, decides the ids of a text."""
        return {"style": self.style, "lower": self.lower, "keep_accents": self.keep_accents}

    @cached_property
    def sha256(self) -> str:
        """Hash of the model file."""
        return hashlib.sha256(self.model).hexdigest()

    def clean(self, text: str) -> str:
        """The text as SentencePiece gets it."""
        text = self.clean_case(text)
        return text.lower() if self.lower else text

    def clean_case(self, text: str) -> str:
        """The clean-up but for lower-casing, which sentence borders are found by."""
        return text if self.style == "plain" else clean(text, keep_accents=self.keep_accents)

    def encode(self, text: str) -> list[int]:
        return self.encode_clean([self.clean(text)])[0]

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        return self.encode_clean([self.clean(text) for text in texts])

    def encode_clean(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode texts that have been through ``clean``."""
        batch: list[list[int]] = self._processor.encode(list(texts), out_type=int, num_threads=1)
        if self.style == "plain":
            return batch
        suspects = self._digit_comma_ids
        for row, ids in enumerate(batch):
            if not suspects.isdisjoint(ids) and "," in texts[row]:
                batch[row] = self._processor.piece_to_id(self._recut(texts[row]))
        return batch

    def pieces(self, text: str) -> list[str]:
        """The pieces of a text; unlike ids they keep what is outside the vocabulary."""
        cleaned = self.clean(text)
        if self.style == "plain":
            found: list[str] = self._processor.encode(cleaned, out_type=str)
            return found
        return self._recut(cleaned)

    @cached_property
    def _digit_comma_ids(self) -> frozenset[int]:
        """Pieces that the digit-comma rule may touch; the unknown piece may hide one."""
        pieces = enumerate(self.all_pieces)
        return frozenset({self.vocab.unk, *(number for number, piece in pieces if _ends_in_digit_comma(piece))})

    def _recut(self, cleaned: str) -> list[str]:
        """Pieces after the digit-comma rule (``prepro_utils.py`` ``encode_pieces``)."""
        result: list[str] = []
        for piece in self._processor.encode(cleaned, out_type=str):
            if not _ends_in_digit_comma(piece):
                result.append(piece)
                continue
            number = self._processor.encode(piece[:-1].replace(SPACE, ""), out_type=str)
            if not piece.startswith(SPACE) and number[0].startswith(SPACE):
                number = [number[0][1:], *number[1:]] if len(number[0]) > 1 else number[1:]
            result += [*number, ","]
        return result

    def decode(self, ids: Iterable[int]) -> str:
        """Text of the ids; control symbols stand for nothing."""
        ids = [int(number) for number in ids]
        worst = next((number for number in ids if not 0 <= number < self.vocab.size), None)
        if worst is not None:
            raise DataError(f"{self.name}: token id {worst} is outside the vocabulary of {self.vocab.size}")
        text: str = self._processor.decode(ids)
        return text

    @cached_property
    def all_pieces(self) -> list[str]:
        """The piece of every id."""
        pieces: list[str] = self._processor.id_to_piece(list(range(self.vocab.size)))
        return pieces

    @cached_property
    def starts_word(self) -> NDArray[np.bool_]:
        """``[V]``: whether a piece begins a word (``data_utils.py`` ``_is_start_piece``): it starts with a space,
        is a symbol in angle brackets, or a single ASCII punctuation mark."""
        return np.array([piece[:1] in (SPACE, "<") or piece in _ASCII_MARKS for piece in self.all_pieces])

    @cached_property
    def piece_bytes(self) -> NDArray[np.int64]:
        """``[V]``: UTF-8 bytes of cleaned text a piece stands for, a word's leading space being one of them.

        Control symbols and ``<eop>`` stand for none. The unknown piece counts as one byte, the least it can be, so
        that bits per byte are never made to look better than they are.
        """
        sizes = np.array([len(piece.replace(SPACE, " ").encode()) for piece in self.all_pieces], dtype=np.int64)
        for number in range(self.vocab.size):
            if self._processor.is_control(number):
                sizes[number] = 0
            elif self._processor.is_byte(number):
                sizes[number] = 1
        sizes[self.vocab.eop] = 0
        sizes[self.vocab.unk] = 1
        return sizes


def _ends_in_digit_comma(piece: str) -> bool:
    return len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()
