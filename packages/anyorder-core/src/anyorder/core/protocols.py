"""The seams: what each kind of part must offer. Parts know these types and never each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from .batch import TokenBatch
from .bias import ScoreBias
from .draws import Draws
from .plan import Plan
from .slots import Readout, Slots, Streams
from .state import MemoryState
from .visibility import Visibility
from .vocab import Vocab


@runtime_checkable
class OrderSampler(Protocol):
    """Chooses targets and their order.

    ``traits`` names what a mask builder may rely on: ``consecutive`` (each target is known right after the token before
    it), ``one_shot`` (all targets have one time, given tokens have an earlier one), ``permutation`` (any order).

    A sampler may also have ``demands``, what it asks of a mask builder's ``offers``; without them it asks nothing.
    """

    @property
    def traits(self) -> frozenset[str]: ...

    def num_targets(self, length: int) -> int:
        """The most targets that a row of this length can have: the static ``P`` of the readout."""
        ...

    def sample(self, batch: TokenBatch, *, generator: Draws) -> Plan: ...


@runtime_checkable
class MaskBuilder(Protocol):
    """Turns tokens and a plan into streams. ``needs`` are the traits it asks of the order.

    A builder may also have ``rules``, what its slots use beyond birth and document: ``DEATH``, ``SPAN``. A builder
    without them uses neither.
    """

    @property
    def needs(self) -> frozenset[str]: ...

    def build(self, batch: TokenBatch, plan: Plan, *, vocab: Vocab, num_targets: int, generator: Draws) -> Streams: ...

    def scoring(self) -> MaskBuilder:
        """The twin that measures: no random corruption, every target hidden. Often ``self``."""
        ...


@runtime_checkable
class PositionBias(Protocol):
    """A score term for one layer. An ``nn.Module`` where it has parameters."""

    def __call__(
        self, query: Float[Tensor, "B H Q d"], *, readers: Slots, keys: Slots, distances: Tensor | None
    ) -> ScoreBias | None:
        """``distances``: the model's table of encoded distances, common to all layers of a step, or None."""
        ...


@dataclass(frozen=True, kw_only=True)
class AttentionRequest:
    """What a backend is asked to serve, known before anything runs.

    Attributes:
        device, dtype: of queries, keys and values; under autocast the dtype that it computes in.
        training: whether any call has a backward pass.
        bias, bias_grad: whether scores have a bias, and whether it needs a gradient.
        dropout: probability of a weight to be dropped.
        head_dim: width of a head.
        rules: what visibility uses beyond birth and document: ``DEATH`` (slots expire), ``SPAN`` (limited spans).
        compiled: whether ``torch.compile`` traces the calls.
        deterministic: whether two runs have to agree to the last bit.
    """

    device: torch.device
    dtype: torch.dtype
    training: bool
    bias: bool
    bias_grad: bool
    dropout: float
    head_dim: int
    rules: frozenset[str] = frozenset()
    compiled: bool = False
    deterministic: bool = False


@runtime_checkable
class AttentionBackend(Protocol):
    """Softmax attention under a visibility and a bias. A reader that sees nothing gets zeros, and zero gradient."""

    @property
    def name(self) -> str: ...

    def refuse(self, request: AttentionRequest) -> str | None:
        """Why this backend cannot serve the request, or None if it can."""
        ...

    def __call__(
        self,
        query: Float[Tensor, "B H Q d"],
        key: Float[Tensor, "B H K d"],
        value: Float[Tensor, "B H K d"],
        *,
        visibility: Visibility,
        bias: ScoreBias | None,
        scale: float,
        dropout: float = 0.0,
    ) -> Float[Tensor, "B H Q d"]:
        """``softmax(scale * (query . key + bias)) @ value`` over the visible keys."""
        ...


@runtime_checkable
class Memory(Protocol):
    """What is kept from segment to segment."""

    @property
    def reuse_len(self) -> int | None:
        """How many leading tokens of a segment are kept, which is also how far the next one lies; None means all."""
        ...

    def empty(
        self, *, rows: int, layers: int, width: int, device: torch.device | str, dtype: torch.dtype
    ) -> MemoryState: ...

    def extend(
        self, state: MemoryState, layer_inputs: tuple[Float[Tensor, "B K D"], ...], *, content: Slots
    ) -> MemoryState: ...


@dataclass(frozen=True, kw_only=True)
class BackboneOutput:
    """States of both streams, and for memory to keep the input of every layer (its keys and values where the memory
    that was read holds those)."""

    content: Float[Tensor, "B K D"] | None
    query: Float[Tensor, "B Q D"] | None
    layer_inputs: tuple[Float[Tensor, "B K D"], ...]

    def stream(self, name: str) -> Float[Tensor, "B N D"]:
        states = self.content if name == "content" else self.query
        assert states is not None, f"the {name} stream was not computed"
        return states


@runtime_checkable
class Backbone(Protocol):
    """A backbone may have ``projected_width``, the size of a slot's keys and values in one layer: then it also reads
    a memory that is ``projected``, which spares evaluation and decoding to project it again."""

    def __call__(self, streams: Streams, memory: MemoryState | None = None) -> BackboneOutput: ...


@dataclass(frozen=True, kw_only=True)
class LossOutput:
    """A sum and the weight behind it (``Readout.weight_sum``), so that accumulation and ranks divide once.

    ``per_target`` is the unweighted loss in nats of each prediction; ``metrics`` are sums to be divided by
    ``weight_sum`` as well.
    """

    loss_sum: Float[Tensor, ""]
    weight_sum: Float[Tensor, ""]
    per_target: Float[Tensor, "B P"] | None = None
    metrics: Mapping[str, Tensor] = field(default_factory=dict)


@runtime_checkable
class LossHead(Protocol):
    """Predicts at a readout. An ``nn.Module`` where it has parameters."""

    def readout(self, batch: TokenBatch, streams: Streams) -> Readout:
        """Where this head reads: the objective's targets, or a place of its own such as the classification token."""
        ...

    def __call__(
        self, hidden: Float[Tensor, "B P D"], readout: Readout, *, embedding: Float[Tensor, "V D"]
    ) -> LossOutput: ...
