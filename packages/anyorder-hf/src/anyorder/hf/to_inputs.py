"""Streams as inputs of transformers' XLNet: a dense ``perm_mask`` in which 1 means "may not see"."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from anyorder.core import TARGETS, IncompatiblePartsError, MemoryState, Slots, Streams, Visibility


def to_transformers_inputs(streams: Streams, memory: MemoryState | None = None) -> dict[str, Any]:
    """Keyword arguments with which ``XLNetLMHeadModel`` computes the same logits as our model.

    ``input_ids``, ``attention_mask`` (1 = real), ``perm_mask`` ``[B, L, L]``, ``token_type_ids`` where there are
    segments, ``target_mapping`` ``[B, P, L]`` where there is a query stream (its logits are then the targets' alone),
    ``mems`` (time first) where there is memory, and ``labels``, -100 where nothing is predicted, if every weight is 0
    or 1: the loss of transformers cannot weigh targets.

    Raises:
        IncompatiblePartsError: transformers' model cannot express the streams; the reason is given.
    """
    content, query = streams.content, streams.query
    readout = streams.readouts.get(TARGETS)
    length = content.count
    _require(content.contiguous and content.low == 0, "content slots are not one token each, in order (MPNet's masks)")
    _require(not bool((content.ids < 0).any()), "a content slot has no token")
    _require(_forwards(content), "a row reads right to left, for which transformers wants all such rows last (bi_data)")
    seen = _seen(content, content)  # [B, L, L]
    real = content.doc >= 0
    self_ = torch.eye(length, dtype=torch.bool, device=seen.device)
    _require(bool((seen | ~self_ | ~real[:, :, None]).all()), "a token does not see itself")
    if memory is not None and memory.length:
        readers = [content] if query is None else [content, query]
        _require(all(_sees_all(reader, memory) for reader in readers), "a token does not see all of the memory")
        _require(bool((memory.segment == 0).all()) if memory.segment is not None else True, "memory has segments")

    hidden = ~seen & real[:, :, None]
    inputs: dict[str, Any] = {"input_ids": content.ids, "attention_mask": real.long()}
    if query is not None:
        _require(bool((query.ids < 0).all()), "a query slot has a token")
        used = query.doc >= 0
        wanted = _seen(query, content)  # [B, P, L]
        own = torch.nn.functional.one_hot(query.position, length).bool()
        row = seen.gather(1, query.position[..., None].expand(-1, -1, length)) & ~own
        _require(
            bool((wanted == row)[used].all()),
            "a query sees other tokens than the token at its place does, itself left out; "
            "transformers has one row of perm_mask for both",
        )
        hidden = hidden | (self_ & _places(query.position, used, length)[:, :, None])
        inputs["target_mapping"] = (own & used[..., None]).float()
    inputs["perm_mask"] = hidden.float()
    if content.segment is not None:
        inputs["token_type_ids"] = content.segment
    if memory is not None and memory.length:
        inputs["mems"] = [layer.transpose(0, 1) for layer in memory.layers]
    if readout is not None and bool(((readout.weight == 0) | (readout.weight == 1)).all()):
        labels = readout.labels.masked_fill(readout.weight == 0, -100)
        inputs["labels"] = labels if query is not None else _scatter(readout.index, labels, length)
    return inputs


def _require(fine: bool, problem: str) -> None:
    if not fine:
        raise IncompatiblePartsError(f"these streams cannot be written as inputs of transformers' XLNet: {problem}")


def _forwards(slots: Slots) -> bool:
    return slots.direction is None or bool((slots.direction > 0).all())


def _seen(readers: Slots, keys: Slots) -> Bool[Tensor, "B Q K"]:
    return Visibility.of(readers, keys).dense()


def _sees_all(readers: Slots, memory: MemoryState) -> bool:
    """Whether every real reader sees every slot of memory, as it always does in transformers."""
    keys = memory.before(readers)
    past = _seen(readers, keys)[:, :, : memory.length]
    return bool(past[readers.doc >= 0].all())


def _places(position: Int[Tensor, "B P"], used: Bool[Tensor, "B P"], length: int) -> Bool[Tensor, "B L"]:
    found = torch.zeros(position.shape[0], length + 1, dtype=torch.bool, device=position.device)
    found.scatter_(1, torch.where(used, position, length), True)
    return found[:, :length]


def _scatter(index: Int[Tensor, "B P"], labels: Int[Tensor, "B P"], length: int) -> Int[Tensor, "B L"]:
    placed = torch.full((index.shape[0], length + 1), -100, dtype=labels.dtype, device=labels.device)
    placed.scatter_(1, torch.where(labels == -100, length, index), labels)
    return placed[:, :length].contiguous()
