"""BERT's masks: the targets are hidden in the input itself, and every token sees every other, or those before it."""

from __future__ import annotations

from typing import Literal, get_args

import torch

from anyorder.core import (
    JOINT,
    ONE_SHOT,
    TARGETS,
    Draws,
    Plan,
    Readout,
    RecipeError,
    Slots,
    Streams,
    TokenBatch,
    Vocab,
    did_you_mean,
)

from .corruption import Corruption
from .targets import Targets

Sight = Literal["everything", "ordered"]


class InPlace:
    """One stream: targets are replaced in the input and predicted where they stand (BERT, section 3.1).

    Args:
        mask: part of the targets whose input is the mask token.
        random: part whose input is drawn uniformly from the vocabulary without its control ids. The rest is
            kept, and marked as ``revealed``.
        visibility: 'everything': the slots of one block of the batch are simultaneous, so of the order only the
            choice of targets counts. 'ordered': a slot sees what the order has before it or at its time, which makes
            a cloze under any order (UniLM, section 2.3). No target stands in the input either way.

    Raises:
        RecipeError: a part outside 0 to 1, both together above 1, or another visibility.
    """

    def __init__(self, *, mask: float = 0.8, random: float = 0.1, visibility: Sight = "everything") -> None:
        self.corruption = Corruption(mask=mask, random=random)
        allowed = get_args(Sight)
        if visibility not in allowed:
            words = " or ".join(map(repr, allowed))
            raise RecipeError(
                f"visibility is {visibility!r}; it must be {words}{did_you_mean(str(visibility), allowed)}",
                path="visibility",
            )
        self.mask, self.random, self.visibility = mask, random, visibility

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({ONE_SHOT} if self.visibility == "everything" else ())

    @property
    def offers(self) -> frozenset[str]:
        return frozenset({JOINT} if self.visibility == "ordered" else ())

    def build(self, batch: TokenBatch, plan: Plan, *, vocab: Vocab, num_targets: int, generator: Draws) -> Streams:
        """Hide the targets and build the content stream.

        Raises:
            DataError: a row has more than ``num_targets`` targets.
        """
        targets = Targets.of(batch, plan, num_targets=num_targets)
        hidden = self.corruption.apply(batch.ids, vocab=vocab, generator=generator)
        ids = torch.where(plan.target, hidden, batch.ids)
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
        birth = plan.time
        if self.visibility == "everything":
            birth = torch.zeros_like(batch.ids) if batch.block is None else batch.block
        return Streams(content=Slots.of_tokens(batch, birth, ids=ids), readouts={TARGETS: readout})

    def scoring(self) -> InPlace:
        """The twin that hides every target behind the mask token."""
        return InPlace(mask=1.0, random=0.0, visibility=self.visibility)
