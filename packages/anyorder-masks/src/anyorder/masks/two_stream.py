"""XLNet's masks: a content stream, and a query stream that knows each target's position and not its token."""

from __future__ import annotations

import torch

from anyorder.core import QUERY_ID, TARGETS, Draws, Plan, Readout, Slots, Streams, TokenBatch, Vocab

from .targets import Targets


class TwoStream:
    """Two-stream self-attention for any order (XLNet, section 2.3, equations 3 and 4).

    Every token keeps its id in the content stream: what hides a target is its birth alone. Each target has a
    query slot at its position, which reads just before the token is born; the predictions are read there.
    Query slots come in ascending position, as in the official ``target_mapping``.
    """

    needs: frozenset[str] = frozenset()

    def build(self, batch: TokenBatch, plan: Plan, *, vocab: Vocab, num_targets: int, generator: Draws) -> Streams:
        """Build both streams; ``vocab`` and ``generator`` are not used.

        Raises:
            DataError: a row has more than ``num_targets`` targets.
        """
        targets = Targets.of(batch, plan, num_targets=num_targets)
        index, valid = targets.index, targets.valid
        query = Slots(
            ids=torch.full_like(index, QUERY_ID),
            position=index,
            birth=torch.full_like(index, torch.iinfo(index.dtype).max),  # nobody's key
            time=plan.time.gather(1, index) - 1,
            doc=batch.doc.gather(1, index).masked_fill(~valid, -1),
            direction=batch.direction,
            segment=None if batch.segment is None else batch.segment.gather(1, index),
            low=0,
            high=batch.length,
        )
        place = torch.arange(num_targets, device=index.device).expand_as(index)
        readout = Readout(stream="query", index=place, labels=targets.labels, weight=targets.weight)
        return Streams(content=Slots.of_tokens(batch, plan.time), query=query, readouts={TARGETS: readout})

    def scoring(self) -> TwoStream:
        return self
