"""Rule 2 on every cell: no target's token reaches its own prediction, through layers, memory or the other stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from anyorder.attention import Naive, SegmentBias, TransformerXLBias
from anyorder.core import (
    TARGETS,
    IncompatiblePartsError,
    MaskBuilder,
    Memory,
    OrderSampler,
    Plan,
    Streams,
    TokenBatch,
    Vocab,
    available,
    find,
    require_compatible,
)
from anyorder.core.testing import (
    AuditedSegment,
    example_batches,
    find_leaks,
    overlapping_batches,
    perturbation_leaks,
)
from anyorder.losses import CrossEntropy
from anyorder.masks import InPlace
from anyorder.memory import NoMemory, SegmentMemory
from anyorder.models import TransformerXL
from anyorder.orders import AllTargets, LastFraction, LeftToRight, Mixture, NgramSpans, NoiseLevel, Permutation, Subset
from anyorder.train.objective import Objective

VOCAB = Vocab(size=40)
LENGTH, REUSE = 16, 8
ORDERS = {name: find("order", name) for name in available("order") if name != "mixture"} | {
    "mixture": lambda: Mixture(parts=[Permutation(targets=AllTargets()), LeftToRight()], probabilities=[3, 1]),
    "subset, known together": lambda: Subset(rate=0.3, context="together"),
    "noise in blocks": lambda: NoiseLevel(block_size=4),
    "permutation, ordered context": lambda: Permutation(context="ordered"),
    "permutation in blocks": lambda: Permutation(perm_size=4),
    "permutation of spans": lambda: Permutation(targets=NgramSpans(k=3)),
    "permutation of everything": lambda: Permutation(targets=LastFraction(k=1)),
}
MASKS = {name: find("masks", name) for name in available("masks")} | {
    "in_place, ordered": lambda: InPlace(visibility="ordered"),
}


def accepted() -> Iterator[tuple[str, str]]:
    for order_name, order in ORDERS.items():
        for masks_name, masks in MASKS.items():
            try:
                require_compatible(order(), masks())
            except IncompatiblePartsError:
                continue
            yield order_name, masks_name


ACCEPTED = list(accepted())


def build(order: OrderSampler, masks: MaskBuilder, memory: Memory) -> Objective:
    torch.manual_seed(0)
    model = TransformerXL(
        vocab_size=VOCAB.size,
        n_layer=3,
        d_model=16,
        n_head=2,
        d_inner=16,
        attention=Naive(),
        biases=(TransformerXLBias, SegmentBias),
        init_std=0.4,
    )
    heads = {"loss": CrossEntropy(vocab_size=VOCAB.size)}
    objective = Objective(order=order, masks=masks, heads=heads, backbone=model, vocab=VOCAB, memory=memory)
    return objective.double().eval()


def audited(objective: Objective, batch: TokenBatch, step: int) -> AuditedSegment:
    plan = objective.plan(batch, seed=0, step=step)
    return AuditedSegment.of(batch, plan, objective.prepare(batch, seed=0, step=step, plan=plan), start=step * REUSE)


@pytest.mark.parametrize(("order", "masks"), ACCEPTED)
def test_no_leak_in_the_graph(order: str, masks: str) -> None:
    """Exactly, for any number of layers: every kind of batch, and overlapping segments with memory."""
    objective = build(ORDERS[order](), MASKS[masks](), NoMemory())
    for name, batch in example_batches(LENGTH, vocab=VOCAB).items():
        leaks = find_leaks([audited(objective, batch, 0)])
        assert not leaks, (name, leaks[0])
    memory = SegmentMemory(mem_len=12, reuse_len=REUSE)
    objective = build(ORDERS[order](), MASKS[masks](), memory)
    batches = overlapping_batches(LENGTH, reuse_len=REUSE, vocab=VOCAB, segments=4)
    leaks = find_leaks([audited(objective, batch, step) for step, batch in enumerate(batches)], memory=memory)
    assert not leaks, leaks[0]


@dataclass
class Predict:
    """Log-probabilities of an objective's targets, after the segments before have filled its memory."""

    objective: Objective
    before: list[TokenBatch]

    @torch.no_grad()
    def __call__(self, batch: TokenBatch, plan: Plan) -> Tensor:
        state = self.objective.empty_memory(batch.rows)
        for step, past in enumerate(self.before):
            # What the segments share is the same text, so a changed token is changed where it was read before.
            shared = replace(past, ids=torch.cat([past.ids[:, :REUSE], batch.ids[:, : past.length - REUSE]], dim=1))
            streams = self.objective.prepare(shared, seed=0, step=step, scoring=True)
            state = self.objective(streams, state.drop(past.fresh)).memory
        streams: Streams = self.objective.prepare(batch, seed=0, step=9, plan=plan, scoring=True)
        output = self.objective.backbone(streams, state.drop(batch.fresh))
        readout = streams.readouts[TARGETS]
        hidden = readout.gather(output.stream(readout.stream))
        logits = self.objective.heads["loss"].logits(hidden, embedding=self.objective.embedding)
        return logits.log_softmax(-1)


@pytest.mark.parametrize(("order", "masks"), ACCEPTED)
def test_no_prediction_moves_with_its_answer(order: str, masks: str) -> None:
    """By experiment: three layers, memory of a segment that had read the same tokens, not a bit may move."""
    memory = SegmentMemory(mem_len=12, reuse_len=REUSE)
    objective = build(ORDERS[order](), MASKS[masks](), memory)
    *before, batch = overlapping_batches(LENGTH, reuse_len=REUSE, vocab=VOCAB, segments=2)
    batch = replace(batch, fresh=torch.zeros_like(batch.fresh))
    plan = objective.plan(batch, seed=0, step=9)
    if "shift" in masks:  # it reads no prediction for a token that has none before it
        plan = replace(plan, target=plan.target & (torch.arange(LENGTH) > 0))
    moved = perturbation_leaks(Predict(objective, before), batch, plan, vocab=VOCAB)
    assert not moved, moved[0]


def test_memory_beyond_the_block_is_caught() -> None:
    """Without blocks, what memory keeps has seen what the next segment reads again."""
    memory = SegmentMemory(mem_len=12, reuse_len=REUSE)
    objective = build(Permutation(), MASKS["two_stream"](), memory)
    batches = [
        replace(batch, block=None) for batch in overlapping_batches(LENGTH, reuse_len=REUSE, vocab=VOCAB, segments=3)
    ]
    segments = [audited(objective, batch, step) for step, batch in enumerate(batches)]
    assert find_leaks(segments, memory=memory), "memory has seen the re-read tokens"
