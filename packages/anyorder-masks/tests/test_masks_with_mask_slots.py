"""MPNet's and block diffusion's masks against their published definitions; a cloze under an order."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from anyorder.core import TARGETS, Draws, MaskBuilder, Plan, RecipeError, Slots, Streams, TokenBatch, Visibility, Vocab
from anyorder.masks import BlockCopy, InPlace, MPNet

VOCAB = Vocab(size=60)


def build(masks: MaskBuilder, batch: TokenBatch, plan: Plan) -> Streams:
    most = max(1, int(plan.target.sum(dim=1).max()))
    return masks.build(batch, plan, vocab=VOCAB, num_targets=most, generator=Draws(0, rows=batch.rows))


def sees(readers: Slots, keys: Slots) -> Tensor:
    return Visibility.of(readers, keys).dense()[0]


def text(length: int) -> TokenBatch:
    return TokenBatch.of(torch.arange(20, 20 + length)[None])


def orders() -> Iterator[tuple[list[int], int]]:
    """Every small length, with random orders and every number of given tokens."""
    draw = random.Random(0)
    for length in range(1, 12):
        for given in range(length):
            yield draw.sample(range(length), length), given


@pytest.mark.parametrize(("order", "given"), list(orders()))
def test_mpnet_is_the_published_mask(order: list[int], given: int) -> None:
    """MPNet's ``make_query_and_content_mask``, written for the permuted sequence [x_perm ; mask slots]."""
    length, targets = len(order), order[given:]
    pred = len(targets)
    # Rows and columns in the permuted order: tokens of rank 0.., then a mask slot for each target in its order.
    content = torch.zeros(length + pred, length + pred, dtype=torch.bool)
    query = torch.zeros(pred, length + pred, dtype=torch.bool)
    for reader in range(length + pred):
        known = max(reader + 1, given) if reader < length else given
        content[reader, :known] = True
        content[reader, length + known - given :] = True
    for reader in range(pred):
        known = given + reader
        query[reader, :known] = True
        query[reader, length + reader :] = True

    batch = text(length)
    streams = build(MPNet(), batch, Plan.from_order(torch.tensor([order]), given=given))
    assert streams.query is not None
    place = {token: number for number, token in enumerate(sorted(targets))}  # ours are in natural order
    columns = order + [length + place[token] for token in targets]
    rows = [place[token] for token in targets]
    assert torch.equal(sees(streams.content, streams.content)[columns][:, columns], content)
    assert torch.equal(sees(streams.query, streams.content)[rows][:, columns], query)


@pytest.mark.parametrize(("order", "given"), list(orders()))
def test_every_mpnet_reader_sees_every_place_once(order: list[int], given: int) -> None:
    batch = text(len(order))
    streams = build(MPNet(), batch, Plan.from_order(torch.tensor([order]), given=given))
    assert streams.query is not None
    position = streams.content.position[0]
    for readers in (streams.content, streams.query):
        for seen in sees(readers, streams.content):
            assert position[seen].sort().values.tolist() == list(range(len(order)))


def test_mpnet_in_blocks_compensates_within_each_block() -> None:
    batch = TokenBatch.of(torch.arange(20, 28)[None], block=torch.tensor([[0] * 4 + [1] * 4]))
    plan = Plan.of(torch.tensor([[0, 2, 0, 1, 1, 0, 0, 2]]), torch.tensor([[0, 1, 0, 1, 1, 0, 0, 1]]).bool())
    streams = build(MPNet(mask=1.0, random=0.0), batch, plan.within_blocks(batch))
    assert streams.query is not None
    position = streams.content.position[0]
    first = position[sees(streams.query, streams.content)[0]]
    last = position[sees(streams.query, streams.content)[3]]
    assert first.sort().values.tolist() == [0, 1, 2, 3]
    assert last.sort().values.tolist() == list(range(8))
    later = sees(streams.content, streams.content)[10]  # the mask slot of place 4 knows its block's context
    assert position[later].sort().values.tolist() == list(range(8))


def test_mpnet_marks_what_it_reveals() -> None:
    batch = TokenBatch.of(torch.arange(20, 50).repeat(40, 1))
    plan = Plan.from_order(torch.arange(30).repeat(40, 1), given=10)
    streams = build(MPNet(mask=0.5, random=0.0), batch, plan)
    revealed = streams.readouts[TARGETS].revealed
    assert revealed is not None
    assert torch.equal(revealed, streams.content.ids[:, 30:] != VOCAB.mask)
    assert float(revealed.float().mean()) == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize(("blocks", "size"), [(1, 4), (3, 1), (4, 3), (2, 5)])
def test_block_copy_is_the_published_mask(blocks: int, size: int) -> None:
    """BD3-LM: block diagonal, offset block causal and block causal, here with the clean copy first."""
    length = blocks * size
    block = torch.arange(length) // size
    clean = block[:, None] >= block[None]
    expected = torch.cat(
        [
            torch.cat([clean, torch.zeros_like(clean)], dim=1),
            torch.cat([block[:, None] > block[None], block[:, None] == block[None]], dim=1),
        ]
    )
    batch = text(length)
    target = torch.rand(1, length, generator=torch.Generator().manual_seed(length)) < 0.5
    streams = build(BlockCopy(), batch, Plan.of(block[None] + 1, target))
    assert torch.equal(sees(streams.content, streams.content), expected)
    clean_ids, noised = streams.content.ids[:, :length], streams.content.ids[:, length:]
    assert torch.equal(clean_ids, batch.ids)
    assert torch.equal(noised == VOCAB.mask, target)


def test_block_copy_of_single_tokens_reads_what_a_query_stream_reads() -> None:
    order = torch.tensor([[3, 0, 4, 1, 2]])
    streams = build(BlockCopy(), text(5), Plan.from_order(order))
    known = sees(streams.content, streams.content)[5:, :5]
    for rank, place in enumerate(order[0].tolist()):
        assert sorted(known[place].nonzero().flatten().tolist()) == sorted(order[0, :rank].tolist())
    assert torch.equal(sees(streams.content, streams.content)[5:, 5:], torch.eye(5).bool())


def test_a_cloze_under_an_order_sees_by_the_order_and_has_no_target_in_its_input() -> None:
    target = torch.tensor([[0, 1, 0, 0, 1, 0]]).bool()
    plan = Plan.of(torch.arange(1, 7)[None], target)
    streams = build(InPlace(mask=1.0, random=0.0, visibility="ordered"), text(6), plan)
    assert torch.equal(sees(streams.content, streams.content), torch.ones(6, 6).tril().bool())
    assert streams.content.ids.tolist() == [[20, VOCAB.mask, 22, 23, VOCAB.mask, 25]]
    assert streams.readouts[TARGETS].index.tolist() == [[1, 4]]


def test_what_is_known_together_is_a_bidirectional_cloze() -> None:
    target = torch.tensor([[0, 1, 0, 1]]).bool()
    ordered = build(InPlace(visibility="ordered"), text(4), Plan.of(torch.ones(1, 4, dtype=torch.long), target))
    everything = build(InPlace(), text(4), Plan.of(target.long(), target))
    assert torch.equal(ordered.content.ids, everything.content.ids)
    for streams in (ordered, everything):
        assert sees(streams.content, streams.content).all()


def test_another_visibility_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"visibility is 'order'; .* did you mean 'ordered'"):
        InPlace(visibility="order")  # type: ignore[arg-type]
