"""What can be proven of the GPU backends without a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from anyorder.attention import Flex, Naive, Xformers
from anyorder.core import AttentionBackend, AttentionRequest
from anyorder.core.testing import AttentionBackendContract

fmha = pytest.importorskip("xformers.ops.fmha")


class OnReference(Xformers):
    """xformers with its own CPU reference in place of the kernel, after its own validation of the inputs."""

    def refuse(self, request: AttentionRequest) -> str | None:
        return None

    @staticmethod
    def _kernel(query: Tensor, key: Tensor, value: Tensor, *, attn_bias: Tensor, p: float, scale: float) -> Tensor:
        from xformers.attn_bias_utils import ref_attention

        inputs = fmha.Inputs(query=query, key=key, value=value, attn_bias=attn_bias, p=p, scale=scale)
        inputs.validate_inputs()
        for operator in (fmha.cutlass.FwOp, fmha.cutlass.BwOp):
            reasons = operator.not_supported_reasons(inputs)
            other = [reason for reason in reasons if "device" not in reason and "xFormers wasn't" not in reason]
            if query.dtype != torch.float64:
                assert not other, other
        size = attn_bias.element_size()
        assert all(stride * size % 16 == 0 for stride in attn_bias.stride()[:-1] if stride > 1), attn_bias.stride()
        if p == 0.0:
            return ref_attention(query, key, value, attn_bias=attn_bias, scale=scale).to(query.dtype)
        rows, count, heads, _ = query.shape
        flat = [tensor.transpose(1, 2).flatten(0, 1) for tensor in (query, key, value)]
        mask = torch.rand(rows * heads, count, key.shape[1]) >= p
        out = ref_attention(*flat, attn_bias=attn_bias.flatten(0, 1), drop_mask=mask, p=p, scale=scale)
        return out.unflatten(0, (rows, heads)).transpose(1, 2).to(query.dtype)


class TestXformersOnItsReference(AttentionBackendContract):
    dtype = torch.float32
    tolerance = 1e-4

    def make(self) -> AttentionBackend:
        return OnReference()


class TestXformersOddHeadSize(TestXformersOnItsReference):
    head_dim = 6
    lengths: ClassVar = (7,)


REQUEST = AttentionRequest(
    device=torch.device("cpu"),
    dtype=torch.float32,
    training=True,
    bias=True,
    bias_grad=True,
    dropout=0.0,
    head_dim=64,
)


def test_xformers_refuses_a_cpu_with_the_reason() -> None:
    assert Xformers().refuse(REQUEST) == "xformers has kernels for CUDA devices only, and the model is on cpu"


def test_flex_refuses_training_on_a_cpu_and_dropout() -> None:
    assert Flex().refuse(REQUEST) == "FlexAttention has no backward pass on a CPU"
    assert Flex().refuse(replace(REQUEST, training=False)) is None
    assert "dropout" in (Flex().refuse(replace(REQUEST, training=False, dropout=0.1)) or "")


class FlexCases(AttentionBackendContract):
    dtype = torch.float32

    def make(self) -> AttentionBackend:
        return Naive()


def test_flex_forward_agrees_with_naive() -> None:
    """The forward pass is all that runs on a CPU; the gradients are a GPU's."""
    for case in FlexCases().cases():
        call = {"visibility": case.visibility, "bias": case.bias, "scale": 0.3}
        with torch.no_grad():
            ours = Flex()(case.query, case.key, case.value, **call)
            expected = Naive()(case.query, case.key, case.value, **call)
        torch.testing.assert_close(
            ours, expected, rtol=0, atol=1e-5, msg=lambda text, case=case: f"{case.name}: {text}"
        )


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
class TestFlexOnGpu(AttentionBackendContract):
    device = "cuda"
    dtype = torch.float32
    tolerance = 5e-3
    head_dim = 32

    def make(self) -> AttentionBackend:
        return Flex()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
class TestXformersOnGpu(AttentionBackendContract):
    device = "cuda"
    dtype = torch.float32
    tolerance = 5e-3
    head_dim = 32

    def make(self) -> AttentionBackend:
        return Xformers()


def test_a_bias_alone_in_needing_a_gradient_gets_one() -> None:
    case = next(case for case in TestXformersOnItsReference().cases() if case.bias is not None)
    table = case.bias.terms[0].codes  # type: ignore[union-attr]
    out = OnReference()(
        case.query.detach(),
        case.key.detach(),
        case.value.detach(),
        visibility=case.visibility,
        bias=case.bias,
        scale=1.0,
    )
    out.sum().backward()
    assert table.grad is not None


TRITON = """
import builtins

import numpy
import torch
import triton.runtime.interpreter as interpreter


class AnyInt(type):
    def __instancecheck__(cls, value):
        return isinstance(value, builtins.int)

    def __call__(cls, value=0):
        return builtins.int(value.item() if isinstance(value, numpy.ndarray) else value)

# The interpreter takes int() of one-element arrays, which numpy 2.4 no longer allows.
interpreter.int = AnyInt("int", (), {})

from xformers.ops.fmha import triton_splitk, Inputs
from anyorder.attention import Naive, Xformers
from anyorder.core.testing import AttentionBackendContract

class Split(Xformers):
    @staticmethod
    def _kernel(query, key, value, *, attn_bias, p, scale):
        inputs = Inputs(query=query, key=key, value=value, attn_bias=attn_bias, p=p, scale=scale)
        return triton_splitk.FwOp.apply(inputs, needs_gradient=False)[0]

class Cases(AttentionBackendContract):
    dtype = torch.float32
    lengths = (7, 33)
    head_dim = 32
    def make(self):
        return Naive()

worst = 0.0
with torch.no_grad():
    for case in Cases().cases():
        call = dict(visibility=case.visibility, bias=case.bias, scale=0.2)
        a = Split()(case.query, case.key, case.value, **call)
        b = Naive()(case.query, case.key, case.value, **call)
        worst = max(worst, float((a - b).abs().max()))
print(worst)
assert worst < 1e-4, worst
"""


@pytest.mark.slow
def test_a_real_kernel_of_xformers_agrees_in_the_interpreter() -> None:
    """The Triton split-K forward pass takes a tensor bias and runs on a CPU under Triton's interpreter."""
    pytest.importorskip("triton")
    environ = {**os.environ, "TRITON_INTERPRET": "1", "XFORMERS_ENABLE_TRITON": "1"}
    done = subprocess.run([sys.executable, "-c", TRITON], env=environ, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-2000:]
