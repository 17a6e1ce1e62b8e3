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
from torch.nn.attention import flex_attention

from anyorder.attention import Flex, Xformers
from anyorder.core import AttentionBackend, AttentionRequest
from anyorder.core.testing import AttentionBackendContract
from anyorder.core.testing.attention_cases import attention_case

fmha = pytest.importorskip("xformers.ops.fmha")


class OnReference(Xformers):
    """xformers with its own CPU reference in place of the kernel, after its own validation of the inputs."""

    def refuse(self, request: AttentionRequest) -> str | None:
        return "no kernel, and a reference in float32" if request.dtype == torch.float64 else None

    @staticmethod
    def _kernel(query: Tensor, key: Tensor, value: Tensor, *, attn_bias: Tensor, p: float, scale: float) -> Tensor:
        from xformers.attn_bias_utils import ref_attention

        inputs = fmha.Inputs(query=query, key=key, value=value, attn_bias=attn_bias, p=p, scale=scale)
        inputs.validate_inputs()
        for operator in (fmha.cutlass.FwOp, fmha.cutlass.BwOp):
            reasons = operator.not_supported_reasons(inputs)
            here = ("device", "xFormers wasn't", "A100+ GPUs")  # what is not about the inputs
            other = [reason for reason in reasons if not any(known in reason for known in here)]
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


def test_flex_refuses_a_gradient_that_varies_where_runs_must_not() -> None:
    request = replace(REQUEST, device=torch.device("cuda"), deterministic=True)
    assert "train.deterministic" in (Flex().refuse(request) or "")
    assert Flex().refuse(replace(request, bias=False, bias_grad=False)) is None


def test_flex_refuses_training_on_a_cpu_and_dropout() -> None:
    assert Flex().refuse(REQUEST) == "FlexAttention has no backward pass on a CPU"
    assert Flex().refuse(replace(REQUEST, training=False)) is None
    assert "dropout" in (Flex().refuse(replace(REQUEST, training=False, dropout=0.1)) or "")


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
class TestFlex(AttentionBackendContract):
    """The forward pass is all that runs on a CPU; the gradients are a GPU's."""

    dtypes = (torch.float32, torch.bfloat16, torch.float16)
    lengths = (1, 7, 29)

    @pytest.fixture(autouse=True)
    def uncompiled(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without Dynamo, which spends a tenth of a second on each call."""
        monkeypatch.setattr(flex_attention, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)

    def make(self) -> AttentionBackend:
        return Flex()


class OnGpu(AttentionBackendContract):
    device = "cuda"
    dtypes = (torch.float32, torch.bfloat16, torch.float16)
    head_dim = 32

    def eps(self, dtype: torch.dtype) -> float:
        """Tensor cores may multiply float32 as TF32, with ten bits."""
        return 2.0**-10 if dtype == torch.float32 else super().eps(dtype)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
class TestFlexOnGpu(OnGpu):
    def make(self) -> AttentionBackend:
        return Flex()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
class TestXformersOnGpu(OnGpu):
    def make(self) -> AttentionBackend:
        return Xformers()


def test_a_bias_alone_in_needing_a_gradient_gets_one() -> None:
    case = attention_case(length=7, memory=0, readers="content", bias="one table", dtype=torch.float32)
    assert case.bias is not None
    table = case.bias.terms[0].codes  # type: ignore[attr-defined]
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
    dtypes = (torch.float32,)
    lengths = (7, 33)
    head_dim = 32
    def make(self):
        return Naive()

worst = 0.0
with torch.no_grad():
    for case in Cases().cases(training=False):
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
