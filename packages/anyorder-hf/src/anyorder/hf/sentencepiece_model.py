"""A SentencePiece model from a ``tokenizer.json``: what transformers 5 saves in its place."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from typing import Any

from anyorder.core import CheckpointError

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED = 1, 2, 3, 4
_ALWAYS_IN_TEXT = frozenset({"<eop>"})  # transformers lists it among special tokens; in XLNet's model it is text
_BASICS = {"<unk>": 40, "<s>": 41, "</s>": 42}  # fields of TrainerSpec that hold their ids


def sentencepiece_model(tokenizer_json: bytes, *, name: str) -> bytes:
    """The serialised model (``sentencepiece_model.proto``) with the same pieces, scores and normalisation.

    Transformers' clean-up of text around it (quotes, accents, case) is ``anyorder.data.Tokenizer``'s as well.

    Raises:
        CheckpointError: not the tokenizer of an XLNet.
    """
    try:
        tree = json.loads(tokenizer_json)
        model = tree["model"]
        vocab = [(str(piece), float(score)) for piece, score in model["vocab"]]
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{name} is damaged, or not of a unigram model: {error}") from None
    if model.get("type", "Unigram") != "Unigram":
        raise CheckpointError(f"{name} is a {model['type']} model; XLNet's is Unigram")
    added = {token["id"]: token for token in tree.get("added_tokens", [])}
    unk = model.get("unk_id", 0)
    parts = []
    for number, (piece, score) in enumerate(vocab):
        kind = _kind(number, piece, score, unk=unk, added=added.get(number))
        message = _bytes(1, piece.encode()) + b"\x15" + struct.pack("<f", score) + _number(3, kind)
        parts.append(_bytes(1, message))
    ids = {piece: number for number, (piece, _) in enumerate(vocab) if piece in _BASICS}
    trainer = _number(3, 1) + _number(4, len(vocab))  # model_type UNIGRAM, vocab_size
    trainer += b"".join(_number(field, ids.get(piece, -1)) for piece, field in _BASICS.items()) + _number(43, -1)
    charsmap = next((n["precompiled_charsmap"] for n in _normalizers(tree) if n.get("type") == "Precompiled"), "")
    normalizer = _bytes(1, b"nmt_nfkc" if charsmap else b"identity") + _bytes(2, base64.b64decode(charsmap))
    return b"".join(parts) + _bytes(2, trainer) + _bytes(3, normalizer)


def _kind(number: int, piece: str, score: float, *, unk: int, added: dict[str, Any] | None) -> int:
    if number == unk:
        return _UNKNOWN
    if piece in _ALWAYS_IN_TEXT:
        return _USER_DEFINED
    if added is not None:
        return _CONTROL if added.get("special") else _USER_DEFINED
    return _USER_DEFINED if score == 0.0 else _NORMAL  # pieces that were learned have log-probabilities


def _normalizers(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    top = tree.get("normalizer") or {}
    yield from top.get("normalizers", [top])


def _varint(value: int) -> bytes:
    value %= 1 << 64  # a negative number is its 64-bit complement
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value
