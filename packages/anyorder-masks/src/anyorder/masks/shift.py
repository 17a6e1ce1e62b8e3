"""The masks of a left-to-right model: each target is predicted one token earlier."""

from __future__ import annotations

import torch

from anyorder.core import CONSECUTIVE, TARGETS, Draws, Plan, Readout, Slots, Streams, TokenBatch, Vocab

from .targets import Targets


class Shift:
    """One stream; the target at ``i`` is read from the slot at ``i - 1``, as in GPT and in prefix LMs.

    There is no prediction where no token of the same document stands before the target: at the start of a
    document, and of a segment, whatever memory knows.
    """

    needs: frozenset[str] = frozenset({CONSECUTIVE})

    def build(self, batch: TokenBatch, plan: Plan, *, vocab: Vocab, num_targets: int, generator: Draws) -> Streams:
        """Build the content stream; ``vocab`` and ``generator`` are not used.

        Raises:
            DataError: a row has more than ``num_targets`` targets.
        """
        targets = Targets.of(batch, plan, num_targets=num_targets)
        before = (targets.index - 1).clamp(min=0)
        same_doc = batch.doc.gather(1, before) == batch.doc.gather(1, targets.index)
        readable = (targets.index > 0) & same_doc
        readout = Readout(
            stream="content",
            index=before,
            labels=targets.labels,
            weight=torch.where(readable, targets.weight, 0.0),
        )
        return Streams(content=Slots.of_tokens(batch, plan.time), readouts={TARGETS: readout})

    def scoring(self) -> Shift:
        return self
