"""FlexAttention: the visibility rule and the score terms as functions of one entry, compiled into a fused kernel."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, create_block_mask, flex_attention

from anyorder.core import AttentionRequest, ScoreBias, Visibility

_compiled: Any = None


def _compile() -> Any:
    """The compiled kernel, one for the process: every model and layer shares its cache."""
    global _compiled
    if _compiled is None:
        _compiled = torch.compile(flex_attention, dynamic=False)
    return _compiled


class Flex:
    """``flex_attention`` with ``Visibility.mask_mod`` and ``ScoreBias.score_mod``.

    Blocks that nobody sees are skipped, and no score is ever stored. The block mask is built once a step and shared by
    all layers of a stream. The gradient of the distance and segment tables is summed with atomics, so two GPU runs
    may differ in the last bits.
    """

    name = "flex"

    def __init__(self) -> None:
        self._masks: WeakKeyDictionary[Visibility, BlockMask] = WeakKeyDictionary()

    def refuse(self, request: AttentionRequest) -> str | None:
        if request.dropout > 0.0:
            return "FlexAttention has no dropout of attention weights (set model.attention_dropout to 0)"
        if request.device.type == "cpu" and request.training:
            return "FlexAttention has no backward pass on a CPU"
        if request.device.type not in ("cpu", "cuda"):
            return f"FlexAttention is not tried on {request.device.type} here"
        if request.deterministic and request.bias_grad:
            return "FlexAttention sums the gradient of a bias in an order that varies (train.deterministic)"
        if request.dtype == torch.float64 and request.device.type == "cuda":
            return "FlexAttention's kernels have no float64"
        if request.head_dim < 16 and request.device.type == "cuda":
            return f"FlexAttention's kernels need a head size of at least 16, and it is {request.head_dim}"
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
        assert dropout == 0.0, "refused"
        term = None if bias is None else bias.score_mod()

        def score_mod(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
            assert term is not None
            return score + scale * term(b, h, q, k)  # our biases are inside the scale

        attend: Any = _compile() if query.device.type == "cuda" else flex_attention
        out, aux = attend(
            query,
            key,
            value,
            score_mod=None if term is None else score_mod,
            block_mask=self._block_mask(visibility),
            scale=scale,
            return_aux=AuxRequest(lse=True),
        )
        read: Tensor = out.masked_fill((aux.lse == -torch.inf)[..., None], 0.0)
        return read

    def _block_mask(self, visibility: Visibility) -> BlockMask:
        mask = self._masks.get(visibility)
        if mask is None:
            mask = create_block_mask(
                visibility.mask_mod(),
                B=visibility.time.shape[0],
                H=None,
                Q_LEN=visibility.time.shape[1],
                KV_LEN=visibility.birth.shape[1],
                device=str(visibility.time.device),
            )
            self._masks[visibility] = mask
        return mask
