"""Learned absolute positions and segments, as in BERT."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from anyorder.attention import Naive
from anyorder.core import DataError, Draws, Plan, TokenBatch, Vocab
from anyorder.masks import InPlace, TwoStream
from anyorder.models import TransformerXL
from anyorder.orders import Subset
from anyorder.train.layerwise import layer_factors

LENGTH = 6


def build(**changes: int | None) -> TransformerXL:
    sizes = {"absolute_positions": 8, "absolute_segments": 3} | changes
    torch.manual_seed(0)
    return TransformerXL(
        vocab_size=20, n_layer=1, d_model=8, n_head=2, d_inner=16, attention=Naive(), biases=(), init_std=0.5, **sizes
    ).eval()


def batch() -> TokenBatch:
    ids = torch.arange(9, 9 + LENGTH).expand(2, -1)
    return TokenBatch.of(ids, segment=(ids > 11).long())


def content(model: TransformerXL, tokens: TokenBatch) -> torch.Tensor:
    plan = Plan.of(torch.zeros_like(tokens.ids), torch.zeros_like(tokens.ids, dtype=torch.bool))
    streams = (
        InPlace()
        .scoring()
        .build(tokens, plan, vocab=Vocab(size=20), num_targets=1, generator=Draws(0, rows=tokens.rows))
    )
    return model(streams).content


def test_without_positions_a_row_is_a_bag_and_with_them_it_is_not() -> None:
    turned = replace(batch(), ids=batch().ids.flip(1), segment=batch().segment.flip(1))
    for positions, same in ((None, True), (8, False)):
        model = build(absolute_positions=positions)
        assert torch.allclose(content(model, batch()), content(model, turned).flip(1), atol=1e-6) == same


def test_segments_count() -> None:
    other = replace(batch(), segment=torch.zeros_like(batch().ids))
    model = build()
    assert not torch.allclose(content(model, batch()), content(model, other))
    model = build(absolute_segments=None)
    assert torch.equal(content(model, batch()), content(model, other))


def test_queries_know_their_position() -> None:
    model = build()
    plan = Subset(rate=0.5).sample(batch(), generator=Draws(1, rows=2))
    streams = TwoStream().build(batch(), plan, vocab=Vocab(size=20), num_targets=3, generator=Draws(1, rows=2))
    query = model(streams).query
    assert not torch.allclose(query[:, 0], query[:, 1])
    with torch.no_grad():
        model.absolute.position.weight.zero_()
        model.absolute.segment.weight.zero_()
    query = model(streams).query
    torch.testing.assert_close(query[:, 0], query[:, 1])


def test_a_segment_past_the_positions_is_refused() -> None:
    with pytest.raises(DataError, match="a segment of 6 tokens has no vectors past 4 absolute positions"):
        content(build(absolute_positions=4), batch())


def test_layer_wise_decay_counts_them_with_the_embeddings() -> None:
    factors = layer_factors(build(), decay=0.5)
    names = ("absolute.position.weight", "absolute.segment.weight", "embedding.weight")
    assert [factors[name] for name in names] == [0.5] * 3
