"""MPNet's masks: two streams, and a mask token at every place whose own token is not known yet."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor

from anyorder.core import DEATH, QUERY_ID, TARGETS, Draws, Plan, Readout, Slots, Streams, TokenBatch, Vocab

from .corruption import Corruption
from .targets import Targets


class MPNet:
    """Position compensation: every reader sees all places of the row (MPNet, Song et al. 2020, section 2.2).

    The content stream is the tokens and, after them, a mask slot at each target's place, which is there from the
    beginning and dies when its token is born. Predictions are read from query slots, as in ``two_stream``.

    With visible blocks in the batch a block's mask slots are there from the beginning of that block.

    Args:
        mask: part of the mask slots that hold the mask token, as in ``in_place``.
        random: part that holds a random id. The rest holds the token itself, and is marked as ``revealed``.

    Raises:
        RecipeError: a part outside 0 to 1, or both together above 1.
    """

    needs: frozenset[str] = frozenset()
    rules: frozenset[str] = frozenset({DEATH})

    def __init__(self, *, mask: float = 0.8, random: float = 0.1) -> None:
        self.corruption = Corruption(mask=mask, random=random)
        self.mask, self.random = mask, random

    def build(self, batch: TokenBatch, plan: Plan, *, vocab: Vocab, num_targets: int, generator: Draws) -> Streams:
        """Build both streams; the content stream has ``L + P`` slots.

        Raises:
            DataError: a row has more than ``num_targets`` targets.
        """
        targets = Targets.of(batch, plan, num_targets=num_targets)
        index, valid = targets.index, targets.valid
        never = torch.iinfo(plan.time.dtype).max
        hidden = self.corruption.apply(batch.ids, vocab=vocab, generator=generator).gather(1, index)
        before = plan.time.gather(1, index) - 1  # the last time at which the target is unknown
        begin = _begins(batch, plan).gather(1, index)
        doc = batch.doc.gather(1, index).masked_fill(~valid, -1)
        segment = None if batch.segment is None else batch.segment.gather(1, index)
        masks = Slots(
            ids=hidden,
            position=index,
            birth=begin,
            death=before,
            time=begin,
            doc=doc,
            direction=batch.direction,
            segment=segment,
            low=0,
            high=batch.length,
        )
        tokens = replace(Slots.of_tokens(batch, plan.time), death=torch.full_like(plan.time, never))
        query = replace(
            masks,
            ids=torch.full_like(index, QUERY_ID),
            birth=torch.full_like(index, never),  # nobody's key
            death=None,
            time=before,
        )
        revealed = None
        if self.mask < 1.0:
            revealed = valid & (hidden == targets.labels)
        readout = Readout(
            stream="query",
            index=torch.arange(num_targets, device=index.device).expand_as(index),
            labels=targets.labels,
            weight=targets.weight,
            revealed=revealed,
        )
        return Streams(content=tokens.then(masks), query=query, readouts={TARGETS: readout})

    def scoring(self) -> MPNet:
        """The twin whose mask slots all hold the mask token."""
        return MPNet(mask=1.0, random=0.0)


def _begins(batch: TokenBatch, plan: Plan) -> Int[Tensor, "B L"]:
    """When the block of each token begins: 0, or where a later block first knows or asks anything."""
    if batch.block is None:
        return torch.zeros_like(plan.time)
    first = (plan.time - plan.target.long()).masked_fill(batch.padding, torch.iinfo(plan.time.dtype).max)
    earliest = first.flip(1).cummin(dim=1).values.flip(1)  # from each place on; later blocks have later times
    block = batch.block.contiguous()
    begin = earliest.gather(1, torch.searchsorted(block, block))
    return begin.masked_fill(batch.block == 0, 0)
