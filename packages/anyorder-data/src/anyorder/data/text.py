"""Text clean-up, sentences, and cutting what is too long: all that happens to text before SentencePiece sees it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_SENTENCE_END = re.compile(r"(?:[.!?…]+[\"'”’)\]_]*\s+(?=[\"'“‘(\[_]*[^\W_a-z])|[。！？]+[」』”]*\s*)")
_NOT_AN_END = re.compile(
    r"(?:^|[\s(\"'“‘_])(?:[A-Z]|Mr|Mrs|Ms|Dr|St|Rev|Hon|Prof|Capt|Col|Gen|Jr|Sr|vs|viz|etc|No|Vol)$"
)
_BLANK_LINES = re.compile(r"\n[^\S\n]*(?:\n[^\S\n]*)+")


def clean(text: str, *, lower: bool = False, keep_accents: bool = False, collapse_space: bool = True) -> str:
    """XLNet's clean-up of running text (``prepro_utils.py`` ``preprocess_text``).

    Args:
        lower: lower-case the result. The released models are cased.
        keep_accents: skip the compatibility decomposition (NFKD) and the dropping of combining marks.
        collapse_space: every run of white space, line breaks included, becomes one space; none at the ends.
    """
    if collapse_space:
        text = " ".join(text.split())
    text = text.replace("``", '"').replace("''", '"')
    if not keep_accents and not text.isascii():
        decomposed = unicodedata.normalize("NFKD", text)
        text = "".join(c for c in decomposed if not unicodedata.combining(c))
    return text.lower() if lower else text


def paragraphs(text: str) -> list[str]:
    """The non-empty blank-line-separated paragraphs of a text."""
    return [part for part in _BLANK_LINES.split(text.replace("\r\n", "\n")) if part and not part.isspace()]


def sentences(text: str) -> list[str]:
    """Split cleaned text into sentences by punctuation; joined by spaces they give the text back.

    A heuristic: a full stop, question or exclamation mark, closing quotes, white space, and then something other
    than a lower-case letter; not after an initial or a common title.
    """
    found, start = [], 0
    for match in _SENTENCE_END.finditer(text):
        if text[match.start()] == "." and _NOT_AN_END.search(text[max(start, match.start() - 8) : match.start()]):
            continue
        found.append(text[start : match.end()].rstrip())
        start = match.end()
    if start < len(text):
        found.append(text[start:].rstrip())
    return found


def cut(text: str, limit: int) -> Iterator[str]:
    """Pieces of at most ``limit`` characters, cut at white space; a longer word is cut where it must be."""
    start = 0
    while len(text) - start > limit:
        stop = max(text.rfind(" ", start + 1, start + limit), text.rfind("\n", start + 1, start + limit))
        stop = stop if stop > start else start + limit
        yield text[start:stop]
        start = stop
    yield text[start:] if start else text
