"""xformers' memory_efficient_attention, given our visibility and bias as its tensor ``attn_bias``."""

from __future__ import annotations

import importlib.util
import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from anyorder.core import AttentionRequest, ScoreBias, Visibility


class Xformers:
    """Memory-efficient kernels of a GPU. They take one dense bias; the scores themselves are never kept.

    What the kernels ask for is met here: layout [B, N, H, d], a bias of exactly (B, H, Q, K) in the queries' dtype,
    strides that are multiples of 8 (16-bit) or 4 (32-bit), a head size that is such a multiple, and an input other
    than the bias that needs a gradient, without which the bias silently gets none.
    """

    name = "xformers"

    def refuse(self, request: AttentionRequest) -> str | None:
        if importlib.util.find_spec("xformers") is None:
            return "xformers is not installed (pip install 'anyorder-attention[xformers]')"
        if request.device.type != "cuda":
            return f"xformers has kernels for CUDA devices only, and the model is on {request.device.type}"
        if request.dtype not in (torch.float32, torch.float16, torch.bfloat16):
            return f"xformers has no kernel for {request.dtype}"
        try:
            from xformers.ops import fmha
        except (ImportError, OSError) as error:
            return f"xformers does not import: {error}"
        width = _rounded(request.head_dim, request.dtype)
        like: dict[str, Any] = {"device": request.device, "dtype": request.dtype}
        probe = torch.zeros(1, 8, 1, width, requires_grad=request.training, **like)
        bias = torch.zeros(1, 1, 8, 8, requires_grad=request.bias_grad, **like)
        inputs = fmha.Inputs(
            query=probe, key=probe, value=probe, attn_bias=bias, p=request.dropout, scale=request.head_dim**-0.5
        )
        operators = [fmha.cutlass.FwOp, *([fmha.cutlass.BwOp] if request.training else [])]
        reasons = [reason for operator in operators for reason in operator.not_supported_reasons(inputs)]
        return f"its kernels refuse: {'; '.join(dict.fromkeys(reasons))}" if reasons else None

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
        rows, heads, readers, width = query.shape
        seen = visibility.dense()[:, None]  # [B, 1, Q, K]
        blind = ~seen.any(dim=-1, keepdim=True)
        shape = (rows, heads, readers, key.shape[2])
        # xformers adds the bias after its scale, while our biases are inside the scale.
        dense = query.new_zeros(1) if bias is None else (bias.dense() * scale).to(query.dtype)
        # A blind reader sees everything, so that no row is all -inf, and is zeroed afterwards.
        dense = dense.expand(shape).masked_fill(~(seen | blind), -math.inf)
        if dense.requires_grad and not (query.requires_grad or key.requires_grad or value.requires_grad):
            query = query.detach().requires_grad_()
        out = self._kernel(
            *(_aligned(tensor.transpose(1, 2)) for tensor in (query, key, value)),
            attn_bias=_aligned(dense)[..., : key.shape[2]],
            p=dropout,
            scale=scale,
        )
        return out[..., :width].transpose(1, 2).masked_fill(blind, 0.0)

    @staticmethod
    def _kernel(query: Tensor, key: Tensor, value: Tensor, *, attn_bias: Tensor, p: float, scale: float) -> Tensor:
        from xformers.ops import memory_efficient_attention

        out: Tensor = memory_efficient_attention(query, key, value, attn_bias=attn_bias, p=p, scale=scale)
        return out


def _rounded(size: int, dtype: torch.dtype) -> int:
    multiple = 4 if dtype == torch.float32 else 8
    return -(-size // multiple) * multiple


def _aligned(tensor: Tensor) -> Tensor:
    """The tensor in a buffer whose last dimension is padded with zeros to what the kernels' loads want."""
    missing = _rounded(tensor.shape[-1], tensor.dtype) - tensor.shape[-1]
    return pad(tensor, (0, missing)) if missing else tensor.contiguous()
