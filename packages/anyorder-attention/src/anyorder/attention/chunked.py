"""Memory-efficient attention in plain torch: blocks of queries, computed again in the backward pass."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, cat
from torch.utils.checkpoint import checkpoint

from anyorder.core import AttentionRequest, RecipeError, ScoreBias, Visibility

from .naive import Naive


class Chunked:
    """Never holds more scores than one block of queries has: memory grows with the length, not with its square.

    Each block is ``naive`` under a checkpoint, over the keys that the block can see at all, so a causal or blocked
    order also saves the work on what is hidden (on a CPU, where looking at the times costs no wait, and uncompiled).

    Args:
        block: queries in a block.
    """

    name = "chunked"

    def __init__(self, *, block: int = 128) -> None:
        if block < 1:
            raise RecipeError(f"block is {block}; it must be at least 1", path="attention.block")
        self.block = block
        self._attend = Naive()

    def refuse(self, request: AttentionRequest) -> str | None:
        return None

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
        def attend(query: Tensor, key: Tensor, value: Tensor, visibility: Visibility, bias: ScoreBias | None) -> Tensor:
            return self._attend(query, key, value, visibility=visibility, bias=bias, scale=scale, dropout=dropout)

        outputs = []
        count, keys = query.shape[2], key.shape[2]
        looks = query.device.type == "cpu" and not torch.compiler.is_compiling()
        for start in range(0, count, self.block):
            rows = slice(start, min(start + self.block, count))
            seen = visibility.key_range(rows) if looks else slice(0, keys)
            outputs.append(
                checkpoint(
                    attend,
                    query[:, :, rows],
                    key[:, :, seen],
                    value[:, :, seen],
                    visibility.block(rows, seen),
                    None if bias is None else bias.block(rows, seen),
                    use_reentrant=False,
                    preserve_rng_state=dropout > 0.0,
                )
            )
        return cat(outputs, dim=2)
