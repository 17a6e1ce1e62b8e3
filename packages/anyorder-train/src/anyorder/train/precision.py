"""What half precision costs on a device."""

from __future__ import annotations

import torch

__all__ = ["slow_bf16"]


def slow_bf16(device: torch.device) -> str | None:
    """Why bf16 does not pay on a device, in words; None where it does, or where nobody can tell.

    torch computes bf16 products by oneDNN where the processor has the instructions (AVX-512 on x86), and elsewhere in
    scalar code: measured on a processor with AVX2 alone, 80 times as slow as fp32.
    """
    if device.type != "cpu":
        return None
    supported = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    if supported is None or supported():
        return None
    return "this processor has no instructions for bf16 products: they are many times slower than fp32"
