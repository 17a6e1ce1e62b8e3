"""Official model inputs (time-major, 1 = may not see) as our slots, which say the same with three vectors."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from anyorder.core import QUERY_ID, Readout, Slots, Streams, TokenBatch, Visibility

UNSEEN = 1 << 20


def visible_sets(case: dict, inputs: dict[str, Tensor]) -> Tensor:
    """[B, L, L]: what the query of each token may see of the current segment, by the official masks."""
    length, rows = inputs["inp_k"].shape
    if "perm_mask" in inputs:
        seen = inputs["perm_mask"].permute(2, 0, 1) == 0
    else:
        seen = torch.ones(rows, length, length, dtype=torch.bool)
    return seen


def slots_of(case: dict, inputs: dict[str, Tensor], *, mem_len: int) -> tuple[Slots, Tensor]:
    """Content slots and the time at which each token's query reads.

    The official mask is a chain: the sets that tokens see, themselves included, are nested. The size of a token's
    own set is then the time at which its content is born, and the size of its query's set the time its query reads.
    """
    ids = inputs["inp_k"].T.long()
    rows, length = ids.shape
    query_sees = visible_sets(case, inputs)
    content_sees = query_sees | torch.eye(length, dtype=torch.bool)
    birth = content_sees.sum(-1)
    query_time = query_sees.sum(-1)
    padding = torch.zeros_like(ids, dtype=torch.bool)
    if "input_mask" in inputs:
        padding = inputs["input_mask"].T > 0
    batch = TokenBatch.of(ids)
    if case["bi_data"]:
        direction = torch.ones(rows, dtype=torch.long)
        direction[rows // 2 :] = -1
        batch = replace(batch, direction=direction)
    if case["seg"]:
        batch = replace(batch, segment=inputs["seg_id"].T.long())
    content = Slots.of_tokens(batch, birth)
    limits = {}
    if case["attn_type"] == "uni":
        limits["ahead"] = 0
        if case["same_length"]:
            limits["back"] = mem_len
    content = replace(content, time=content.birth, birth=content.birth + UNSEEN * padding, **limits)
    expected = content_sees & ~padding[:, None, :]
    if case["attn_type"] == "uni":
        expected &= torch.ones(length, length).tril().bool()
        if case["same_length"] and mem_len < length:
            index = torch.arange(length)
            expected &= index[:, None] - index[None, :] <= mem_len
    # Where a padding token reads, the official code lets it see itself; nothing of it is ever used.
    real = ~padding[:, :, None]
    if case["fully_blocked_query_row"]:
        real[0] = False  # a hand-made mask, no chain; the test leaves this row of the batch out
    assert torch.equal(Visibility.of(content, content).dense() & real, expected & real)
    return content, query_time


def official_streams(case: dict, inputs: dict[str, Tensor], *, mem_len: int) -> Streams:
    content, query_time = slots_of(case, inputs, mem_len=mem_len)
    length = content.count
    if case["stream"] == "single":
        return Streams(content=content, readouts={"targets": _readout("content", inputs, length)})
    if case["stream"] == "inpq":
        hidden = inputs["inp_q"].T > 0
        query = replace(content, ids=torch.where(hidden, QUERY_ID, content.ids), time=query_time)
        return Streams(content=content, query=query, readouts={"targets": _readout("query", inputs, length)})
    mapping = inputs["target_mapping"].permute(2, 0, 1)  # [B, P, L]
    index, exists = mapping.argmax(-1), mapping.sum(-1) > 0

    def take(values: Tensor) -> Tensor:
        return values.gather(1, index)

    query = replace(
        content,
        ids=torch.full_like(index, QUERY_ID),
        position=index,
        birth=take(content.birth),
        time=take(query_time),
        doc=torch.where(exists, 0, -1),
        segment=None if content.segment is None else take(content.segment),
        contiguous=False,
    )
    return Streams(content=content, query=query, readouts={"targets": _readout("query", inputs, index.shape[1])})


def _readout(stream: str, inputs: dict[str, Tensor], count: int) -> Readout:
    labels = inputs["target"].T.long()
    return Readout(
        stream=stream,
        index=torch.arange(count).expand(labels.shape[0], -1),
        labels=labels,
        weight=inputs["target_mask"].T,
    )
