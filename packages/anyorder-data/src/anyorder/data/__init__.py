"""Tokenizer, corpus preparation and contiguous memory-mapped rows; ships a small public-domain corpus."""

from .bundled import bundled_corpus, cache_folder
from .corpus import Corpus, Split
from .documents import DocumentBreak
from .held_out import windows
from .manifest import Manifest
from .pairs import PAIR_LABELS
from .preparation import prepare
from .rows import Layout, Rows
from .text import clean, sentences
from .tokenizer import Style, Tokenizer
from .train_tokenizer import train_tokenizer

__all__ = [
    "PAIR_LABELS",
    "Corpus",
    "DocumentBreak",
    "Layout",
    "Manifest",
    "Rows",
    "Split",
    "Style",
    "Tokenizer",
    "bundled_corpus",
    "cache_folder",
    "clean",
    "prepare",
    "sentences",
    "train_tokenizer",
    "windows",
]
