"""Block diffusion's masks: a clean copy of the row, and a noised one that reads it."""

from __future__ import annotations

from dataclasses import replace

import torch

from anyorder.core import DEATH, JOINT, TARGETS, Draws, Plan, Readout, Slots, Streams, TokenBatch, Vocab

from .targets import Targets


class BlockCopy:
    """One stream of two copies (BD3-LM, Arriola et al. 2025): tokens that are known at one time are a block.

    The clean copy comes first: each of its tokens sees its block and earlier ones. In the noised copy the mask token
    stands for each target; it sees its own block's noised copy and the clean copy of earlier blocks. The predictions
    are read from it, at their own places. Memory keeps the clean copy.

    Any order will do: blocks of one token make an any-order autoregressive model without a query stream.
    """

    needs: frozenset[str] = frozenset()
    offers: frozenset[str] = frozenset({JOINT})
    rules: frozenset[str] = frozenset({DEATH})

    def build(self, batch: TokenBatch, plan: Plan, *, vocab: Vocab, num_targets: int, generator: Draws) -> Streams:
        """Build the content stream of ``2 L`` slots; ``generator`` is not used.

        Raises:
            DataError: a row has more than ``num_targets`` targets.
        """
        targets = Targets.of(batch, plan, num_targets=num_targets)
        # A block is noised at an even time and clean at the odd one after.
        noised = Slots.of_tokens(batch, 2 * plan.time, ids=batch.ids.masked_fill(plan.target, vocab.mask))
        clean = Slots.of_tokens(batch, 2 * plan.time + 1)
        never = torch.full_like(plan.time, torch.iinfo(plan.time.dtype).max)
        content = replace(clean, death=never).then(replace(noised, death=noised.time))
        readout = Readout(
            stream="content",
            index=(targets.index + batch.length).masked_fill(~targets.valid, 0),
            labels=targets.labels,
            weight=targets.weight,
        )
        return Streams(content=content, readouts={TARGETS: readout})

    def scoring(self) -> BlockCopy:
        return self
