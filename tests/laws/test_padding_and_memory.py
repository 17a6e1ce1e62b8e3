"""Padding changes nothing, and memory stands for the text before."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from anyorder.core import Slots, Streams, TokenBatch
from anyorder.memory import SegmentMemory

from .model_parts import VOCAB, tiny_model, tokens


def encode(batch: TokenBatch, birth: torch.Tensor, model=None) -> torch.Tensor:  # type: ignore[no-untyped-def]
    model = model or tiny_model()
    return model(Streams(content=Slots.of_tokens(batch, birth))).content


@pytest.mark.parametrize("left", [0, 1, 5])
@pytest.mark.parametrize("right", [0, 1, 4])
@pytest.mark.parametrize("causal", [False, True])
def test_any_padding_gives_the_same_states(left: int, right: int, causal: bool) -> None:
    ids = tokens(2, 9)
    segment = (torch.arange(9) > 4).long().expand(2, -1)
    time = torch.arange(9).expand(2, -1) if causal else torch.zeros_like(ids)
    bare = encode(TokenBatch.of(ids, segment=segment), time)

    def wide(inner: torch.Tensor, fill: int) -> torch.Tensor:
        return torch.nn.functional.pad(inner, (left, right), value=fill)

    doc = wide(torch.zeros_like(ids), -1)
    padded = TokenBatch.of(wide(ids, VOCAB.pad), doc=doc, segment=wide(segment, 3))
    states = encode(padded, wide(time, 0))
    torch.testing.assert_close(states[:, left : left + 9], bare, rtol=0, atol=1e-12)


def test_two_segments_with_memory_equal_one_longer_segment() -> None:
    """Causal, and memory holds all of the first segment: the second reads what it would in one piece."""
    ids = tokens(2, 12)
    model = tiny_model()
    whole = encode(TokenBatch.of(ids), torch.arange(12).expand(2, -1), model)

    memory = SegmentMemory(mem_len=12)
    state = memory.empty(rows=2, layers=3, width=16, device="cpu", dtype=torch.float64)
    parts = []
    for piece in ids.split(4, dim=1):
        content = Slots.of_tokens(TokenBatch.of(piece), torch.arange(4).expand(2, -1))
        output = model(Streams(content=content), state)
        state = memory.extend(state, output.layer_inputs, content=content)
        parts.append(output.content)
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, rtol=0, atol=1e-12)


def test_a_bidirectional_segment_read_after_a_remembered_one_equals_blocks_of_one_segment() -> None:
    """Blocks inside one segment, the later seeing the earlier, are what memory does across segments."""
    ids = tokens(1, 10)
    model = tiny_model()
    block = (torch.arange(10) >= 5).long()[None]
    whole = encode(TokenBatch.of(ids), block, model)
    memory = SegmentMemory(mem_len=5)
    state = memory.empty(rows=1, layers=3, width=16, device="cpu", dtype=torch.float64)
    for piece in ids.split(5, dim=1):
        content = Slots.of_tokens(TokenBatch.of(piece), torch.zeros_like(piece))
        output = model(Streams(content=content), state)
        state = memory.extend(state, output.layer_inputs, content=content)
    torch.testing.assert_close(output.content, whole[:, 5:], rtol=0, atol=1e-12)


def test_a_fresh_row_reads_as_if_there_were_no_memory() -> None:
    ids = tokens(2, 6)
    model = tiny_model()
    memory = SegmentMemory(mem_len=6)
    state = memory.empty(rows=2, layers=3, width=16, device="cpu", dtype=torch.float64)
    content = Slots.of_tokens(TokenBatch.of(ids), torch.zeros_like(ids))
    alone = model(Streams(content=content))
    state = memory.extend(state, alone.layer_inputs, content=content)
    output = model(Streams(content=content), state.drop(torch.tensor([True, False])))
    torch.testing.assert_close(output.content[0], alone.content[0], rtol=0, atol=1e-12)
    assert float((output.content[1] - alone.content[1]).abs().max()) > 1e-3


def test_a_row_read_right_to_left_mirrors_the_text() -> None:
    """Reversing the tokens and the direction leaves every token's state as it was."""
    ids = tokens(2, 7)
    forwards = encode(TokenBatch.of(ids), torch.zeros_like(ids))
    batch = TokenBatch.of(ids.flip(1), direction=torch.tensor([-1, -1]))
    backwards = encode(batch, torch.zeros_like(ids))
    torch.testing.assert_close(backwards.flip(1), forwards, rtol=0, atol=1e-12)
    unaware = encode(replace(batch, direction=None), torch.zeros_like(ids))
    assert float((unaware.flip(1) - forwards).abs().max()) > 1e-3


def test_documents_in_one_row_do_not_see_each_other() -> None:
    ids = tokens(1, 10)
    doc = torch.tensor([[0] * 4 + [1] * 6])
    together = encode(TokenBatch.of(ids, doc=doc), torch.zeros_like(ids))
    first = encode(TokenBatch.of(ids[:, :4]), torch.zeros(1, 4, dtype=torch.long))
    second = encode(TokenBatch.of(ids[:, 4:]), torch.zeros(1, 6, dtype=torch.long))
    torch.testing.assert_close(together, torch.cat([first, second], dim=1), rtol=0, atol=1e-12)
