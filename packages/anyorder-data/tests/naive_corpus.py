"""Sources for a corpus, and what is in one, by the slow way."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from anyorder.core import Draws, TokenBatch
from anyorder.data import Corpus, Tokenizer
from anyorder.data.corpus import Split

DATA = Path(__file__).parent / "data"


def documents(corpus: Corpus) -> list[list[int]]:
    """All documents in their order, whatever their split."""
    found: dict[int, list[int]] = {}
    for name in ("train", "valid"):
        if corpus.manifest.splits[name]["documents"]:
            split = corpus.split(name)
            for number in range(split.documents):
                found[int(split.starts[number])] = split.document(number).tolist()
    return [found[start] for start in sorted(found)]


def many(path: Path, count: int = 300) -> Path:
    text = " ".join((DATA / "b.txt").read_text(encoding="utf-8").split())
    records = ({"text": f"Number {n}. {text[n : n + 40 + 7 * (n % 50)]}\n\nAnd {n * n}."} for n in range(count))
    path.write_text("\n".join(json.dumps(record) for record in records), encoding="utf-8")
    return path


def stream_of(split: Split, *, seed: int, epoch: int, shuffle: bool = True) -> tuple[list[int], list[int], list[int]]:
    """The naive twin: all tokens, document numbers and sentence borders of an epoch, materialised."""
    order = list(range(split.documents))
    if shuffle:
        order = Draws(seed, epoch, rows=1, purpose="documents").permutation(split.documents)[0].tolist()
    ids, doc, borders = [], [], [0]
    all_ends = split.sentence_ends.tolist()
    for place, number in enumerate(order):
        tokens = split.document(number).tolist()
        start = int(split.starts[number])
        borders += [end - start + len(ids) for end in all_ends if start < end <= start + len(tokens)]
        ids += tokens
        doc += [place] * len(tokens)
    return ids, doc, borders


def naive_words(ids: list[int], tokenizer: Tokenizer) -> list[int]:
    number, words = 0, []
    for token in ids:
        number += bool(tokenizer.starts_word[token])
        words.append(number)
    return words


def equal(one: TokenBatch, two: TokenBatch) -> bool:
    def same(a: object, b: object) -> bool:
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            return torch.equal(a, b)
        if isinstance(a, dict) and isinstance(b, dict):
            return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
        return a is None and b is None

    return all(same(value, vars(two)[name]) for name, value in vars(one).items())
