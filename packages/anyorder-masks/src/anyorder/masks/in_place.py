"""BERT's masks: every token sees every other, and the targets are hidden in the input itself."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from anyorder.core import (
    ONE_SHOT,
    TARGETS,
    DataError,
    Draws,
    Plan,
    Readout,
    RecipeError,
    Slots,
    Streams,
    TokenBatch,
    Vocab,
)

from .targets import Targets


class InPlace:
    """One stream: targets are replaced in the input and predicted where they stand (BERT, section 3.1).

    The slots of one block of the batch are simultaneous, so of the order only the choice of targets counts.

    Args:
        mask: part of the targets whose input is the mask token.
        random: part whose input is drawn uniformly from the vocabulary without its control ids. The rest is
            kept, and marked as ``revealed``.

    Raises:
        RecipeError: a part outside 0 to 1, or both together above 1.
    """

    needs: frozenset[str] = frozenset({ONE_SHOT})

    def __init__(self, *, mask: float = 0.8, random: float = 0.1) -> None:
        for name, part in (("mask", mask), ("random", random)):
            if not 0.0 <= part <= 1.0:
                raise RecipeError(f"{name} is {part}; it must be from 0 to 1", path=name)
        if mask + random > 1.0 + 1e-9:
            raise RecipeError(
                f"random is {random} and mask {mask}: together {mask + random:g}, but at most 1", path="random"
            )
        self.mask = mask
        self.random = random

    def build(self, batch: TokenBatch, plan: Plan, *, vocab: Vocab, num_targets: int, generator: Draws) -> Streams:
        """Hide the targets and build the content stream.

        Raises:
            DataError: a row has more than ``num_targets`` targets.
        """
        targets = Targets.of(batch, plan, num_targets=num_targets)
        ids = torch.where(plan.target, self._corrupt(batch.ids, vocab=vocab, generator=generator), batch.ids)
        revealed = None
        if self.mask < 1.0:
            # A random id may be the token's own, which reveals it just as well.
            revealed = targets.valid & (ids.gather(1, targets.index) == targets.labels)
        readout = Readout(
            stream="content",
            index=targets.index,
            labels=targets.labels,
            weight=targets.weight,
            revealed=revealed,
        )
        birth = torch.zeros_like(batch.ids) if batch.block is None else batch.block
        return Streams(content=Slots.of_tokens(batch, birth, ids=ids), readouts={TARGETS: readout})

    def scoring(self) -> InPlace:
        """The twin that hides every target behind the mask token."""
        return InPlace(mask=1.0, random=0.0)

    def _corrupt(self, ids: Int[Tensor, "B L"], *, vocab: Vocab, generator: Draws) -> Int[Tensor, "B L"]:
        """What every token would become if it were a target."""
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
