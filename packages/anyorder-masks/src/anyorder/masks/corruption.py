"""What stands in the input in a hidden token's place."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from anyorder.core import DataError, Draws, RecipeError, Vocab


@dataclass(frozen=True, kw_only=True)
class Corruption:
    """BERT's 80/10/10 (section 3.1).

    Attributes:
        mask: part of the tokens that become the mask token.
        random: part that becomes an id drawn uniformly from the vocabulary without its control ids. The rest is kept.
    """

    mask: float
    random: float

    def __post_init__(self) -> None:
        for name, part in (("mask", self.mask), ("random", self.random)):
            if not 0.0 <= part <= 1.0:
                raise RecipeError(f"{name} is {part}; it must be from 0 to 1", path=name)
        if self.mask + self.random > 1.0 + 1e-9:
            both = self.mask + self.random
            raise RecipeError(
                f"random is {self.random} and mask {self.mask}: together {both:g}, but at most 1", path="random"
            )

    def apply(self, ids: Int[Tensor, "B L"], *, vocab: Vocab, generator: Draws) -> Int[Tensor, "B L"]:
        """What every token would become if it were hidden."""
        if self.mask == 1.0:
            return torch.full_like(ids, vocab.mask)
        length = ids.shape[1]
        lot = generator.rand(length)
        other = random_ids(vocab, length, generator=generator).to(ids.dtype)
        kept = torch.where(lot < self.mask + self.random, other, ids)
        return torch.where(lot < self.mask, vocab.mask, kept)


def random_ids(vocab: Vocab, length: int, *, generator: Draws) -> Int[Tensor, "B L"]:
    """Ids drawn uniformly from the vocabulary without its control ids."""
    control = sorted({id_ for id_ in vocab.control if 0 <= id_ < vocab.size})
    free = vocab.size - len(control)
    if free < 1:
        raise DataError(f"a vocabulary of {vocab.size} control ids has none to draw; use random 0")
    ids = generator.randint(free, length)
    for id_ in control:  # ascending, so each step moves what lies at or above the next gap
        ids = ids + (ids >= id_)
    return ids
