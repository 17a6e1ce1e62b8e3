"""Replaced-token detection: what is sampled, what is detected, and where gradients go."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from anyorder.attention import Naive, TransformerXLBias
from anyorder.core import TokenBatch, Vocab
from anyorder.core.testing import example_batches
from anyorder.losses import CrossEntropy, ReplacedTokens
from anyorder.masks import InPlace
from anyorder.models import TransformerXL
from anyorder.orders import Subset
from anyorder.train.replaced import REPLACED, ReplacedTokenDetection, SampledStreams, sample

VOCAB = Vocab(size=40)
LENGTH = 24


def backbone(layers: int) -> TransformerXL:
    return TransformerXL(
        vocab_size=VOCAB.size,
        n_layer=layers,
        d_model=16,
        n_head=2,
        d_inner=16,
        attention=Naive(),
        biases=(TransformerXLBias,),
        dropout=0.0,
        attention_dropout=0.0,
        init_std=0.3,
    )


def electra() -> ReplacedTokenDetection:
    torch.manual_seed(0)
    return ReplacedTokenDetection(
        generator=backbone(1),
        detector=ReplacedTokens(d_model=16),
        order=Subset(rate=0.3),
        masks=InPlace(mask=0.85, random=0.0),
        heads={"loss": CrossEntropy(vocab_size=VOCAB.size)},
        backbone=backbone(2),
        vocab=VOCAB,
    )


@pytest.fixture(params=["plain", "padded on the right", "padded on the left", "nothing to predict"])
def batch(request: pytest.FixtureRequest) -> TokenBatch:
    return example_batches(LENGTH, vocab=VOCAB)[request.param]


def filled_in(objective: ReplacedTokenDetection, streams: SampledStreams) -> tuple[torch.Tensor, torch.Tensor]:
    """The model's input and the labels of the detector."""
    seen = []
    handle = objective.backbone.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    objective(streams)
    handle.remove()
    return seen[0].content.ids, seen[0].readouts[REPLACED].labels


def test_samples_stand_at_the_targets_alone_and_labels_say_which_differ(batch: TokenBatch) -> None:
    objective = electra()
    streams = objective.prepare(batch, seed=1, step=0)
    ids, labels = filled_in(objective, streams)
    target = objective.plan(batch, seed=1, step=0).target
    assert torch.equal(ids[~target], batch.ids[~target])
    assert torch.equal(labels, (ids != batch.ids).long())
    if bool(target.any()):
        assert float(labels[target].float().mean()) > 0.5, "an untrained generator is mostly wrong"


def test_no_mask_token_is_left_in_the_models_input() -> None:
    batch = example_batches(LENGTH, vocab=VOCAB)["plain"]
    objective = electra()
    with torch.no_grad():
        objective.heads["loss"].bias[VOCAB.mask] = -1e9
    streams = objective.prepare(batch, seed=1, step=0)
    assert (streams.content.ids == VOCAB.mask).any()
    assert not (filled_in(objective, streams)[0] == VOCAB.mask).any()


def test_the_same_step_samples_the_same_whatever_else_is_in_the_batch(batch: TokenBatch) -> None:
    objective = electra()
    whole, _ = filled_in(objective, objective.prepare(batch, seed=1, step=3))
    rows = torch.tensor([2, 0])
    some = objective.prepare(batch.map(lambda part: part[rows]), seed=1, step=3, rows=rows)
    assert torch.equal(filled_in(objective, some)[0], whole[rows])


def test_the_detector_teaches_the_generator_nothing_but_the_embedding() -> None:
    objective = electra()
    streams = objective.prepare(example_batches(LENGTH, vocab=VOCAB)["plain"], seed=1, step=0)
    losses = objective(streams).losses
    losses[REPLACED].loss_sum.backward()
    gradients = {name: p.grad for name, p in objective.named_parameters() if name.startswith("generator.")}
    assert all(gradient is None for gradient in gradients.values())
    assert objective.embedding.grad is not None
    assert objective.generator.embedding is objective.backbone.embedding


def test_the_total_weighs_the_detector_by_fifty() -> None:
    objective = electra()
    streams = objective.prepare(example_batches(LENGTH, vocab=VOCAB)["plain"], seed=1, step=0)
    losses = objective(streams).losses
    means = {name: loss.loss_sum / loss.weight_sum for name, loss in losses.items()}
    total = objective.total(losses, objective.weight_sums(streams))
    torch.testing.assert_close(total, means["loss"] + 50 * means[REPLACED])


def test_samples_follow_the_softmax() -> None:
    logits = torch.tensor([0.0, 1.0, -1.0, 2.0]).repeat(1, 20000, 1)
    drawn = sample(logits, torch.rand(1, 20000, generator=torch.Generator().manual_seed(0)))
    shares = torch.bincount(drawn.flatten(), minlength=4) / 20000
    torch.testing.assert_close(shares, logits[0, 0].softmax(dim=0), rtol=0, atol=0.015)
    certain = torch.tensor([[[0.0, -torch.inf, 0.0]]]).expand(1, 3, 3)
    assert sample(certain, torch.tensor([[0.0, 0.5, 1 - 2**-24]])).tolist() == [[0, 2, 2]]


def test_streams_keep_their_lots_on_the_way_to_a_device() -> None:
    streams = electra().prepare(example_batches(LENGTH, vocab=VOCAB)["plain"], seed=1, step=0)
    moved = streams.to("cpu")
    assert isinstance(moved, SampledStreams)
    assert torch.equal(replace(moved).lots, streams.lots)
