"""An objective: an order sampler, a mask builder and loss heads around one backbone and one memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from anyorder.core import (
    TARGETS,
    Backbone,
    BackboneOutput,
    Draws,
    LossHead,
    LossOutput,
    MaskBuilder,
    Memory,
    MemoryState,
    OrderSampler,
    Plan,
    Streams,
    TokenBatch,
    Vocab,
    require_compatible,
)

__all__ = ["Objective", "ObjectiveOutput"]


@dataclass(frozen=True, kw_only=True)
class ObjectiveOutput:
    """What one segment gives: a loss a head, and the memory for the next segment (None without memory)."""

    losses: Mapping[str, LossOutput]
    memory: MemoryState | None


class Objective(nn.Module):
    """Parts put together. ``prepare`` samples (on the CPU, outside any compiled graph); ``forward`` computes.

    Args:
        order: samples targets and their order.
        masks: turns tokens and plan into streams.
        heads: loss heads by name; ``loss`` is the main one, the others ride along.
        head_weights: weight of each head's mean loss in the total; 1 where not named.
        backbone: computes the streams. Its ``embedding`` is tied to the heads' output.
        memory: what is kept between segments, or None.
        vocab: special ids.
    """

    def __init__(
        self,
        *,
        order: OrderSampler,
        masks: MaskBuilder,
        heads: Mapping[str, LossHead],
        backbone: Backbone,
        vocab: Vocab,
        memory: Memory | None = None,
        head_weights: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__()
        require_compatible(order, masks)
        self.order, self.masks, self.memory, self.vocab = order, masks, memory, vocab
        self.backbone = backbone
        self.heads = nn.ModuleDict(heads)  # type: ignore[arg-type]
        self.head_weights = dict.fromkeys(heads, 1.0) | dict(head_weights or {})

    def plan(self, batch: TokenBatch, *, seed: int, step: int, rows: Tensor | int | None = None) -> Plan:
        """Sample an order, each block of the batch after the one before it."""
        generator = Draws(seed, step, rows=batch.rows if rows is None else rows, purpose="order")
        return self.order.sample(batch, generator=generator).within_blocks(batch)

    def prepare(
        self,
        batch: TokenBatch,
        *,
        seed: int,
        step: int,
        rows: Tensor | int | None = None,
        plan: Plan | None = None,
        num_targets: int | None = None,
        scoring: bool = False,
    ) -> Streams:
        """Sample an order and build the streams, with one readout for each head beside the masks' own.

        Args:
            batch: tokens, on the CPU.
            seed, step, rows: the key of every draw; ``rows`` are global row numbers.
            plan: a plan to follow in place of a sampled one (already in block order).
            num_targets: static number of predictions a row; the sampler's own bound by default.
            scoring: hide every target and draw no corruption, as measurements want.
        """
        if plan is None:
            plan = self.plan(batch, seed=seed, step=step, rows=rows)
        generator = Draws(seed, step, rows=batch.rows if rows is None else rows, purpose="masks")
        masks = self.masks.scoring() if scoring else self.masks
        if num_targets is None:
            num_targets = self.order.num_targets(batch.length)
        streams = masks.build(batch, plan, vocab=self.vocab, num_targets=num_targets, generator=generator)
        if plan.count is not None and TARGETS in streams.readouts:
            counted = replace(streams.readouts[TARGETS], count=plan.count)
            streams = replace(streams, readouts={**streams.readouts, TARGETS: counted})
        readouts = {name: head.readout(batch, streams) for name, head in self._heads().items()}
        return replace(streams, readouts={**streams.readouts, **readouts})

    def forward(self, streams: Streams, memory: MemoryState | None = None) -> ObjectiveOutput:
        """Compute every head's loss of one segment, and what memory keeps of it."""
        output = self.states(streams, memory)
        losses = self._losses(self._heads(), streams, output)
        if self.memory is None or memory is None:
            return ObjectiveOutput(losses=losses, memory=None)
        return ObjectiveOutput(losses=losses, memory=self.remember(self.memory, memory, output, streams))

    @staticmethod
    def remember(memory: Memory, state: MemoryState, output: BackboneOutput, streams: Streams) -> MemoryState:
        """What a memory keeps of a segment. It need not know what the tensors are that it keeps."""
        kept = memory.extend(state, output.layer_inputs, content=streams.content)
        return replace(kept, projected=state.projected)

    def states(self, streams: Streams, memory: MemoryState | None = None) -> BackboneOutput:
        """The states from which the main head, ``loss``, predicts."""
        output: BackboneOutput = self.backbone(streams, memory)
        return output

    def empty_memory(self, rows: int, *, projected: bool = False) -> MemoryState | None:
        """The memory before the first segment, on the model's device and in its dtype; None without memory.

        Args:
            rows: of a batch.
            projected: of keys and values, for as long as the weights stand still, where the backbone can.
        """
        return None if self.memory is None else self.begin(self.memory, rows, projected=projected)

    def begin(self, memory: Memory, rows: int, *, projected: bool = False) -> MemoryState:
        """The first state of any memory under this backbone; see ``empty_memory``."""
        weight = self.embedding
        layers: int = self.backbone.n_layer  # type: ignore[attr-defined]
        width: int | None = getattr(self.backbone, "projected_width", None) if projected else None
        state = memory.empty(
            rows=rows,
            layers=layers,
            width=weight.shape[1] if width is None else width,
            device=weight.device,
            dtype=weight.dtype,
        )
        return replace(state, projected=width is not None)

    @property
    def embedding(self) -> Tensor:
        """The word embedding [V, D], which the heads share."""
        weight: Tensor = self.backbone.embedding.weight  # type: ignore[attr-defined]
        return weight

    def weight_sums(self, streams: Streams) -> dict[str, Tensor]:
        """The weight behind each head's loss, known before anything is computed: what a step divides by, once."""
        return {name: streams.readouts[name].weight_sum for name in self.heads}

    def total(self, losses: Mapping[str, LossOutput], weight_sums: Mapping[str, Tensor | float]) -> Tensor:
        """The training loss of one segment: each head's sum over the whole step's weight, times the head's weight.

        ``weight_sums`` are those of the whole step (all accumulated segments and ranks), so that the losses of its
        segments add up to the mean. A head without any prediction gives zero, not NaN.
        """
        parts = []
        for name, loss in losses.items():
            weight = torch.as_tensor(weight_sums[name], dtype=loss.loss_sum.dtype, device=loss.loss_sum.device)
            mean = loss.loss_sum / torch.where(weight > 0, weight, torch.ones_like(weight))
            parts.append(self.head_weights[name] * mean)
        return torch.stack(parts).sum()

    def _losses(self, heads: Mapping[str, LossHead], streams: Streams, output: BackboneOutput) -> dict[str, LossOutput]:
        losses = {}
        for name, head in heads.items():
            readout = streams.readouts[name]
            hidden = readout.gather(output.stream(readout.stream))
            losses[name] = head(hidden, readout, embedding=self.embedding)
        return losses

    def _heads(self) -> dict[str, LossHead]:
        return dict(self.heads.items())  # type: ignore[arg-type]
