"""Inputs of transformers' XLNet as streams: a ``perm_mask`` that is a chain, in three vectors."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from anyorder.core import QUERY_ID, IncompatiblePartsError, Slots, Streams, TokenBatch, Visibility


def from_transformers_inputs(
    input_ids: Int[Tensor, "B L"],
    *,
    perm_mask: Float[Tensor, "B L L"] | None = None,
    target_mapping: Float[Tensor, "B P L"] | None = None,
    token_type_ids: Int[Tensor, "B L"] | None = None,
    attention_mask: Tensor | None = None,
) -> Streams:
    """Streams with which our model computes what ``XLNetModel`` does.

    The sets of tokens that the rows of ``perm_mask`` let be seen, each with its own token, must be nested: then the
    size of a token's own set is the time at which it is born. Every factorisation order is such a chain.

    Args:
        input_ids: tokens.
        perm_mask: 1 where the row's token may not see the column's; nothing is hidden where None.
        target_mapping: one-hot rows of the places to predict; a row of zeros is nobody's.
        token_type_ids: segments.
        attention_mask: 1 for real tokens, 0 for padding, which sees nothing here and computes nothing of use there.

    Raises:
        IncompatiblePartsError: the mask is not a chain.
    """
    rows, length = input_ids.shape
    real = torch.ones_like(input_ids, dtype=torch.bool) if attention_mask is None else attention_mask > 0
    batch = TokenBatch.of(input_ids, doc=torch.where(real, 0, -1), segment=token_type_ids)
    query_sees = real[:, None, :].expand(rows, length, length)
    if perm_mask is not None:
        query_sees = query_sees & (perm_mask == 0)
    content_sees = (query_sees | torch.eye(length, dtype=torch.bool, device=real.device)) & real[:, :, None]
    content = Slots.of_tokens(batch, content_sees.sum(dim=-1))
    _require_equal(Visibility.of(content, content).dense(), content_sees)
    if target_mapping is None:
        return Streams(content=content)
    index = target_mapping.argmax(dim=-1)

    def take(values: Tensor) -> Tensor:
        return values.gather(1, index)

    exists = (target_mapping.sum(dim=-1) > 0) & take(real)
    query = replace(
        content,
        ids=torch.full_like(index, QUERY_ID),
        position=index,
        birth=torch.full_like(index, torch.iinfo(index.dtype).max),  # nobody's key
        time=take(query_sees.sum(dim=-1)),
        doc=torch.where(exists, 0, -1),
        segment=None if token_type_ids is None else take(token_type_ids),
        contiguous=False,
    )
    expected = query_sees.gather(1, index[..., None].expand(-1, -1, length)) & exists[..., None]
    _require_equal(Visibility.of(query, content).dense(), expected)
    return Streams(content=content, query=query)


def _require_equal(ours: Bool[Tensor, "B Q K"], theirs: Bool[Tensor, "B Q K"]) -> None:
    if not torch.equal(ours, theirs):
        row, reader, key = (int(i) for i in (ours != theirs).nonzero()[0])
        raise IncompatiblePartsError(
            f"perm_mask is not a chain: in row {row} the sets that tokens may see are not nested "
            f"(first at token {reader}, key {key}), so no order of tokens gives it"
        )
