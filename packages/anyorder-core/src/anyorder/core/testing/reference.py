"""Plain twins of parts, as slow and as short as they can be: what the contracts compare with."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..batch import TokenBatch
from ..draws import Draws
from ..errors import DataError
from ..plan import Plan
from ..slots import QUERY_ID, TARGETS, Readout, Slots, Streams
from ..state import MemoryState
from ..vocab import Vocab


def reference_attention(
    query: Float[Tensor, "B H Q d"],
    key: Float[Tensor, "B H K d"],
    value: Float[Tensor, "B H K d"],
    *,
    visible: Bool[Tensor, "B Q K"],
    bias: Float[Tensor, "B H Q K"] | None,
    scale: float,
    keep: Bool[Tensor, "B H Q K"] | None = None,
    dropout: float = 0.0,
) -> Float[Tensor, "B H Q d"]:
    """Attention by its definition, every score written out; a reader of no key gets zeros.

    ``keep`` marks the weights that survive a dropout of this probability.
    """
    score = scale * (torch.einsum("bhqd,bhkd->bhqk", query, key) + (0.0 if bias is None else bias))
    score = score.masked_fill(~visible[:, None], -torch.inf)
    peak = score.detach().amax(dim=-1, keepdim=True)  # only against overflow: it cancels
    weight = (score - peak.masked_fill(peak == -torch.inf, 0.0)).exp()
    total = weight.sum(dim=-1, keepdim=True)
    weight = weight / total.masked_fill(total == 0, 1.0)
    if keep is not None:
        weight = weight * keep / (1.0 - dropout)
    return torch.einsum("bhqk,bhkd->bhqd", weight, value)


class ReferenceTwoStream:
    """Two streams from loops: the twin of ``two_stream``, and the mask builder that samplers are audited under."""

    needs: frozenset[str] = frozenset()

    def build(self, batch: TokenBatch, plan: Plan, *, vocab: Vocab, num_targets: int, generator: Draws) -> Streams:
        shape = (batch.rows, num_targets)
        position = torch.zeros(shape, dtype=torch.long)
        time, doc = torch.zeros_like(position), torch.full_like(position, -1)
        labels, weight = torch.zeros_like(position), torch.zeros(shape)
        for row in range(batch.rows):
            places = plan.target[row].nonzero().flatten().tolist()
            if len(places) > num_targets:
                raise DataError(f"row {row} has {len(places)} targets, but the readout has {num_targets} places")
            for place, index in enumerate(places):
                position[row, place] = index
                time[row, place] = plan.time[row, index] - 1
                doc[row, place] = batch.doc[row, index]
                labels[row, place] = batch.ids[row, index]
                weight[row, place] = plan.weight[row, index]
        query = Slots(
            ids=torch.full_like(position, QUERY_ID),
            position=position,
            birth=torch.full_like(position, torch.iinfo(torch.int64).max),
            time=time,
            doc=doc,
            direction=batch.direction,
            segment=None if batch.segment is None else batch.segment.gather(1, position),
            low=0,
            high=batch.length,
        )
        index = torch.arange(num_targets).expand(shape)
        readout = Readout(stream="query", index=index, labels=labels, weight=weight)
        return Streams(content=Slots.of_tokens(batch, plan.time), query=query, readouts={TARGETS: readout})

    def scoring(self) -> ReferenceTwoStream:
        return self


@dataclass(frozen=True, kw_only=True)
class ReferenceMemory:
    """Keeps the last ``mem_len`` of all leading tokens it was ever given: the twin of ``segment``."""

    mem_len: int
    reuse_len: int | None = None

    def empty(
        self, *, rows: int, layers: int, width: int, device: torch.device | str, dtype: torch.dtype
    ) -> MemoryState:
        return MemoryState(
            layers=tuple(torch.zeros(rows, 0, width, device=device, dtype=dtype) for _ in range(layers)),
            position=torch.zeros(rows, 0, dtype=torch.long, device=device),
            doc=torch.zeros(rows, 0, dtype=torch.long, device=device),
        )

    def extend(
        self, state: MemoryState, layer_inputs: tuple[Float[Tensor, "B K D"], ...], *, content: Slots
    ) -> MemoryState:
        tokens = content.high - content.low
        kept = tokens if self.reuse_len is None else min(self.reuse_len, tokens)
        layers = tuple(
            torch.cat([past, now[:, :kept].detach()], dim=1)
            for past, now in zip(state.layers, layer_inputs, strict=True)
        )
        doc = torch.cat([state.doc, content.doc[:, :kept]], dim=1)
        length = min(doc.shape[1], self.mem_len)
        start = doc.shape[1] - length
        return MemoryState(
            layers=tuple(layer[:, start:] for layer in layers),
            position=torch.arange(-length, 0, device=doc.device).expand(doc.shape[0], -1),
            doc=doc[:, start:],
        )
