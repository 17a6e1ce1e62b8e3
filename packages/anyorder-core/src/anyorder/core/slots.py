"""The token slots a backbone computes, and where predictions are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from .batch import TokenBatch
from .struct import TensorStruct

QUERY_ID = -1
"""Id of a slot that knows its position but no token: it is embedded as the learned query vector (XLNet's g)."""

DEATH = "death"
"""In a mask builder's ``rules``: some of its slots expire."""

SPAN = "span"
"""In a mask builder's ``rules``: some of its readers have ``back`` or ``ahead``."""


@dataclass(frozen=True, kw_only=True)
class Slots(TensorStruct):
    """``N`` slots of every row, as keys (``birth``, ``death``) and as readers (``time``).

    Attributes:
        ids: token id, or ``QUERY_ID``.
        position: place in reading order; memory lies at negative places.
        birth: when the slot's content may first be seen.
        time: when the slot itself reads.
        doc: document, ``-1`` for padding.
        direction: ``+1`` or ``-1`` a row, the place in the text being ``direction * position``; None if all are ``+1``.
        death: the last time at which the slot may be seen, or None if none ever expires.
        segment: segment id, or None where there is one segment.
        back, ahead: static limits on ``reader.position - key.position`` for these readers: at most ``back``, at least
            ``-ahead``; None where there is no limit. An attention span that is not the memory's length.
        low, high: static bounds, ``low <= position < high``.
        contiguous: static promise that ``position[b, n] == low + n``.
    """

    ids: Int[Tensor, "B N"]
    position: Int[Tensor, "B N"]
    birth: Int[Tensor, "B N"]
    time: Int[Tensor, "B N"]
    doc: Int[Tensor, "B N"]
    direction: Int[Tensor, " B"] | None = None
    death: Int[Tensor, "B N"] | None = None
    segment: Int[Tensor, "B N"] | None = None
    back: int | None = None
    ahead: int | None = None
    low: int
    high: int
    contiguous: bool = False

    @property
    def count(self) -> int:
        return self.position.shape[1]

    def then(self, more: Slots) -> Slots:
        """These slots and more of the same rows after them, no longer contiguous.

        Both or neither have deaths, and segments.
        """

        def join(one: Tensor, other: Tensor) -> Tensor:
            return torch.cat([one, other], dim=1)

        def join_any(one: Tensor | None, other: Tensor | None) -> Tensor | None:
            assert (one is None) == (other is None), "both or neither"
            return None if one is None or other is None else join(one, other)

        return replace(
            self,
            ids=join(self.ids, more.ids),
            position=join(self.position, more.position),
            birth=join(self.birth, more.birth),
            time=join(self.time, more.time),
            doc=join(self.doc, more.doc),
            death=join_any(self.death, more.death),
            segment=join_any(self.segment, more.segment),
            low=min(self.low, more.low),
            high=max(self.high, more.high),
            contiguous=False,
        )

    @classmethod
    def of_tokens(
        cls,
        batch: TokenBatch,
        birth: Int[Tensor, "B L"],
        *,
        ids: Int[Tensor, "B L"] | None = None,
        time: Int[Tensor, "B L"] | None = None,
    ) -> Slots:
        """The content slots of a batch, one a token in natural order; each reads at its own birth unless told."""
        position = torch.arange(batch.length, device=batch.ids.device).expand_as(batch.ids)
        return cls(
            ids=batch.ids if ids is None else ids,
            position=position,
            birth=birth,
            time=birth if time is None else time,
            doc=batch.doc,
            direction=batch.direction,
            segment=batch.segment,
            low=0,
            high=batch.length,
            contiguous=True,
        )


@dataclass(frozen=True, kw_only=True)
class Readout(TensorStruct):
    """``P`` places of a stream at which a head predicts.

    Attributes:
        stream: which stream is read.
        index: slot of that stream.
        labels: what is predicted: a token id, or a class.
        weight: weight of each prediction; 0 pads to the static ``P``.
        revealed: predictions whose token stands in the input by design (BERT's tenth that is kept), which a leak
            audit passes over; None if there are none.
        count: what a row's weighted losses are divided by (``Plan.count``); None for the sum of the weights.
    """

    stream: Literal["content", "query"]
    index: Int[Tensor, "B P"]
    labels: Int[Tensor, "B P"]
    weight: Float[Tensor, "B P"]
    revealed: Bool[Tensor, "B P"] | None = None
    count: Float[Tensor, " B"] | None = None

    @property
    def weight_sum(self) -> Float[Tensor, ""]:
        """What the sum of weighted losses is divided by, once for a whole step."""
        return self.weight.sum() if self.count is None else self.count.sum()

    def gather(self, hidden: Float[Tensor, "B N D"]) -> Float[Tensor, "B P D"]:
        """The hidden states of the predictions."""
        return hidden.gather(1, self.index[..., None].expand(-1, -1, hidden.shape[-1]))


@dataclass(frozen=True, kw_only=True)
class Streams(TensorStruct):
    """What a mask builder makes of a batch and a plan: all that a backbone needs.

    The first ``L`` content slots are the batch's tokens in natural order (memory keeps the leading ones of them);
    a builder may append more.
    """

    content: Slots
    query: Slots | None = None
    readouts: Mapping[str, Readout] = field(default_factory=dict)


TARGETS = "targets"
"""Name of the readout of an objective's own targets."""
