"""Training a SentencePiece model the way XLNet's was."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable

from anyorder.core import DataError

from .text import clean, cut
from .tokenizer import Style, Tokenizer

CONTROL_SYMBOLS = ("<cls>", "<sep>", "<pad>", "<mask>", "<eod>")
USER_SYMBOLS = ("<eop>", ".", "(", ")", '"', "-", "–", "£", "€")
_THREADS = 4  # part of the result: sums of floats depend on how the text is shared out, so it is not the core count
_LINE = 4000  # characters; SentencePiece drops longer lines in silence


def train_tokenizer(
    texts: Iterable[str],
    *,
    vocab_size: int = 8000,
    character_coverage: float = 0.99995,
    style: Style = "xlnet",
    lower: bool = False,
    keep_accents: bool = False,
) -> Tokenizer:
    """Train a unigram model with XLNet's ids and flags.

    ``<unk> <s> </s> <cls> <sep> <pad> <mask> <eod> <eop>`` are ids 0 to 8, then come the marks ``. ( ) " - – £ €``
    as pieces of their own. The same texts give the same model, byte for byte, whatever the number of cores.

    Args:
        texts: paragraphs or sentences; they are cleaned up here as they will be when encoded.
        vocab_size: number of pieces, special symbols included.
        character_coverage: share of the characters that get pieces; the rest become ``<unk>``.

    Raises:
        DataError: no text, or a vocabulary that the text cannot fill (the message says how much it can).
    """
    from sentencepiece import SentencePieceTrainer

    smallest = 3 + len(CONTROL_SYMBOLS) + len(USER_SYMBOLS) + 1
    if vocab_size < smallest:
        raise DataError(f"vocab_size {vocab_size} is too small: the special symbols alone need {smallest}")

    def lines() -> Iterable[str]:
        for text in texts:
            if style == "xlnet":
                text = clean(text, lower=lower, keep_accents=keep_accents)
            elif lower:
                text = text.lower()
            yield from (line for line in cut(text, _LINE) if line and not line.isspace())

    model = io.BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=iter(lines()),
            model_writer=model,
            model_type="unigram",
            vocab_size=vocab_size,
            character_coverage=character_coverage,
            unk_id=0,
            bos_id=1,
            eos_id=2,
            pad_id=-1,  # XLNet's <pad> is a control symbol
            control_symbols=list(CONTROL_SYMBOLS),
            user_defined_symbols=list(USER_SYMBOLS),
            max_sentence_length=4 * _LINE,
            num_threads=_THREADS,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise _explain(str(error), vocab_size) from error
    return Tokenizer(
        model.getvalue(), name="the trained tokenizer", style=style, lower=lower, keep_accents=keep_accents
    )


def _explain(problem: str, vocab_size: int) -> DataError:
    most = re.search(r"too high \(\d+\).*?<=\s*(\d+)", problem, re.DOTALL)
    if most:
        return DataError(
            f"vocab_size {vocab_size} is more than this text can fill; the most is {most[1]}: "
            f"set vocab_size to {most[1]} or less, or give more text"
        )
    least = re.search(r"smaller than required_chars\. \d+ vs (\d+)", problem)
    if least:
        return DataError(
            f"vocab_size {vocab_size} is too small for the characters of this text, which need {least[1]}; "
            "raise it or lower character_coverage"
        )
    if "sentences_.empty()" in problem:
        return DataError("no text to train a tokenizer on")
    return DataError(f"SentencePiece cannot train on this text: {problem.strip().splitlines()[-1]}")
