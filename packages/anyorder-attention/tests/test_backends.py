"""Every backend against the definition of attention: outputs and gradients of every input and bias factor."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

from anyorder.attention import Chunked, Naive, Sdpa, SegmentBias, Tiled, TransformerXLBias
from anyorder.core import AttentionBackend, ScoreBias, Slots, Visibility
from anyorder.core.testing import AttentionBackendContract


class TestNaive(AttentionBackendContract):
    def make(self) -> AttentionBackend:
        return Naive()


class TestSdpa(AttentionBackendContract):
    def make(self) -> AttentionBackend:
        return Sdpa()


class TestChunked(AttentionBackendContract):
    def make(self) -> AttentionBackend:
        return Chunked(block=16)


class TestTiled(AttentionBackendContract):
    def make(self) -> AttentionBackend:
        return Tiled(tile=16, smallest=0)


class TestTiledRecomputing(AttentionBackendContract):
    def make(self) -> AttentionBackend:
        return Tiled(tile=32, recompute=True, smallest=0)


OTHERS: list[AttentionBackend] = [
    Sdpa(),
    Chunked(block=8),
    Tiled(tile=8, smallest=0),
    Tiled(tile=16, smallest=0, recompute=True),
]


def parameter_gradients(backend: AttentionBackend, *, directed: bool, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Of both position biases, W_r and the segment vectors included, under a backend and autocast to ``dtype``."""
    torch.manual_seed(0)
    sizes = {"d_model": 16, "n_head": 2, "d_head": 8}
    biases = nn.ModuleDict({"place": TransformerXLBias(**sizes), "segment": SegmentBias(**sizes)})
    for parameter in biases.parameters():
        nn.init.normal_(parameter, std=0.3)
    length = 21
    place = torch.arange(length).expand(3, -1)
    order = torch.rand(3, length).argsort(dim=1)
    slots = Slots(
        ids=place,
        position=place,
        birth=order,
        time=order,
        doc=torch.zeros_like(place),
        direction=torch.tensor([1, -1, 1]) if directed else None,
        segment=place % 5,
        low=0,
        high=length,
        contiguous=True,
    )
    distances = torch.randn(2 if directed else 1, 2 * length, 16)
    query, key, value = (torch.randn(3, 2, length, 8).to(dtype) for _ in range(3))
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
        terms = [bias(query, readers=slots, keys=slots, distances=distances) for bias in biases.values()]
        call: dict[str, Any] = {"visibility": Visibility.of(slots, slots), "bias": ScoreBias.join(*terms)}
        out = backend(query, key, value, scale=8**-0.5, **call)
    (out.float() * torch.randn(out.shape)).sum().backward()
    found = {name: parameter.grad for name, parameter in biases.named_parameters()}
    assert all(gradient is not None and gradient.any() for gradient in found.values())
    return found  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("backend", "directed", "dtype"),
    list(product(OTHERS, (False, True), (torch.float32, torch.bfloat16))),
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_the_biases_learn_the_same(backend: AttentionBackend, directed: bool, dtype: torch.dtype) -> None:
    """W_r, r_r, r_s and the segment vectors, also where rows read in two directions and under autocast."""
    expected = parameter_gradients(Naive(), directed=directed, dtype=torch.float32)
    ours = parameter_gradients(backend, directed=directed, dtype=dtype)
    size = torch.cat([gradient.flatten() for gradient in expected.values()]).norm()
    for name, gradient in ours.items():
        off = float((gradient - expected[name]).norm() / size)
        assert off < 4 * torch.finfo(dtype).eps, f"{name}: off by {off:.2g} of the whole gradient"


@pytest.mark.parametrize("backend", OTHERS, ids=lambda backend: backend.name)
def test_a_bias_may_have_another_dtype_than_the_queries(backend: AttentionBackend) -> None:
    """As it does where a term is computed from parameters alone, which autocast leaves in full precision."""
    contract = TestTiled()
    half = contract.case(length=45, memory=5, readers="query", bias="every term", dtype=torch.bfloat16)
    wide = half.with_leaves([*half.leaves[:3], *(leaf.detach().float().requires_grad_() for leaf in half.leaves[3:])])
    contract.make = lambda: backend  # type: ignore[method-assign]
    out, *gradients = contract.run(wide)
    contract.compare(wide, out, gradients)


@pytest.mark.slow
@pytest.mark.parametrize("backend", [Naive(), Sdpa(), Chunked(block=16)], ids=lambda backend: backend.name)
def test_what_may_be_compiled_is_one_graph_with_the_same_numbers(backend: AttentionBackend) -> None:
    contract = TestChunked()
    contract.make = lambda: backend  # type: ignore[method-assign]
    assert backend.refuse(replace(contract.request(bias=True), compiled=True)) is None
    case = contract.case(length=45, memory=5, readers="content", bias="a table a row", dtype=torch.float32)
    torch._dynamo.reset()
    counters.clear()
    plain = contract.call
    contract.call = torch.compile(plain, backend="aot_eager", fullgraph=True)  # type: ignore[method-assign]
    out, *gradients = contract.run(case)
    torch._dynamo.reset()
    contract.compare(case, out, gradients)
    assert counters["stats"]["unique_graphs"] == 1
