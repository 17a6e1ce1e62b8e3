"""Every recorded case of the official model, through our parts: outputs, memories, losses, gradients."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from anyorder.attention import Naive, Sdpa, SegmentBias, TransformerXLBias
from anyorder.core import MemoryState, Streams
from anyorder.hf.official import LM_BIAS, from_official
from anyorder.losses import CrossEntropy
from anyorder.memory import SegmentMemory
from anyorder.models import TransformerXL

from .ledger import note
from .official_streams import official_streams

GOLDEN = Path(__file__).parents[1] / "data" / "golden"
CASES = json.loads((GOLDEN / "model_cases.json").read_text())
ARRAYS = np.load(GOLDEN / "model_cases.npz")
RECORDED = [
    (name, dtype)
    for name in CASES["cases"]
    for dtype, key in ((torch.float64, "f64"), (torch.float32, "f32"))
    if f"{name}/seg0/{key}/output" in ARRAYS.files
]
TOLERANCE = {  # of the recording: see docs/parity
    torch.float64: {"output": 1e-10, "lm_loss": 1e-10, "loss": 1e-10, "grad": 1e-10},
    torch.float32: {"output": 2e-5, "lm_loss": 1e-4, "loss": 1e-5, "grad": 2e-5},
}


def arrays(prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): torch.from_numpy(ARRAYS[name]) for name in ARRAYS.files if name.startswith(prefix)
    }


def build(case: dict, dtype: torch.dtype, backend: object) -> tuple[TransformerXL, CrossEntropy]:
    weights = load_file(GOLDEN / case["weights"])
    dims = CASES["dims"]
    model = TransformerXL(
        vocab_size=weights["model/transformer/word_embedding/lookup_table"].shape[0],
        n_layer=dims["n_layer"],
        d_model=dims["d_model"],
        n_head=dims["n_head"],
        d_head=case["d_head"],
        d_inner=dims["d_inner"],
        attention=backend,
        biases=(TransformerXLBias, SegmentBias),
        activation=case["ff_activation"],
        clamp_len=case["clamp_len"] if case["clamp_len"] > 0 else None,
        untie_biases=case["untie_r"],
    ).to(dtype)
    model.load_state_dict({k: v.to(dtype) for k, v in from_official(weights, n_layer=dims["n_layer"]).items()})
    head = CrossEntropy(vocab_size=model.embedding.num_embeddings).to(dtype)
    head.load_state_dict({"bias": weights[LM_BIAS].to(dtype)})
    return model.eval(), head.eval()


def initial_memory(name: str, case: dict, model: TransformerXL, rows: int, dtype: torch.dtype) -> MemoryState:
    length = 0 if case["mem0"] is None else case["mem_len"]
    state = SegmentMemory(mem_len=length, initial="zeros").empty(
        rows=rows, layers=model.n_layer, width=model.d_model, device="cpu", dtype=dtype
    )
    if case["mem0"] is None:
        return state
    recorded = torch.from_numpy(ARRAYS[f"{name}/mems_in"]).to(dtype)  # [N, M, B, D]
    return MemoryState(
        layers=tuple(layer.transpose(0, 1) for layer in recorded),
        position=state.position,
        doc=state.doc,
        segment=state.segment,
    )


def run(name: str, model: TransformerXL, head: CrossEntropy, dtype: torch.dtype):  # type: ignore[no-untyped-def]
    """Yield, for every segment, its streams, what we compute and what was recorded."""
    case = CASES["cases"][name]
    memory = SegmentMemory(mem_len=case["mem_len"] or 0, reuse_len=case["reuse_len"], initial="zeros")
    state: MemoryState | None = None
    for number in range(case["nseg"]):
        inputs = arrays(f"{name}/seg{number}/")
        recorded = {k.split("/", 1)[1]: v for k, v in inputs.items() if k.startswith(precision(dtype))}
        if state is None:
            state = initial_memory(name, case, model, inputs["inp_k"].shape[1], dtype)
        streams = official_streams(case, inputs, mem_len=state.length)
        output = model(streams, state)
        readout = streams.readouts["targets"]
        loss = head(readout.gather(output.stream(readout.stream)), readout, embedding=model.embedding.weight)
        if case["mem_len"]:
            state = memory.extend(state, output.layer_inputs, content=streams.content)
        yield streams, output, loss, state, recorded


def precision(dtype: torch.dtype) -> str:
    return "f64/" if dtype == torch.float64 else "f32/"


def largest(ours: Tensor, recorded: Tensor, where: Tensor | None = None) -> float:
    difference = (ours.detach() - recorded.to(ours.dtype)).abs()
    if where is not None:
        difference = difference[where]
    return float(difference.max()) if difference.numel() else 0.0


def compare(name: str, dtype: torch.dtype, backend: object) -> dict[str, float]:
    """The largest difference of each recorded quantity over all segments of a case."""
    case = CASES["cases"][name]
    worst = {"output": 0.0, "lm_loss": 0.0}
    model, head = build(case, dtype, backend)
    for streams, output, loss, state, recorded in run(name, model, head, dtype):
        assert recorded, (name, dtype)
        readout = streams.readouts["targets"]
        states = output.stream(readout.stream)
        used = used_rows(case, streams, states)
        pairs = {
            "output": (states, recorded["output"].transpose(0, 1), used),
            "lm_loss": (loss.per_target, recorded["lm_loss"].T, used & (readout.weight > 0)),
        }
        for key, (ours, theirs, where) in pairs.items():
            worst[key] = max(worst[key], largest(ours, theirs, where))
        if bool(used[readout.weight > 0].all()):
            worst["loss"] = max(worst.get("loss", 0.0), largest(loss.loss_sum / loss.weight_sum, recorded["loss"]))
        if "new_mems" in recorded:
            theirs = recorded["new_mems"].transpose(1, 2)
            worst["new_mems"] = max(
                worst.get("new_mems", 0.0), *(largest(a, b) for a, b in zip(state.layers, theirs, strict=True))
            )
    if case["grad"]:
        (loss.loss_sum / loss.weight_sum).backward()
        worst["grad"] = largest_gradient(f"{name}/{precision(dtype)[:3]}_grad/", model, head)
    return worst


def used_rows(case: dict, streams: Streams, states: Tensor) -> Tensor:
    """Rows that mean something: not padding, and not the row of the batch that holds the fully blocked reader."""
    used = torch.ones(states.shape[:2], dtype=torch.bool)
    if streams.readouts["targets"].stream == "content":
        used = streams.content.birth < (1 << 20)
    if case["fully_blocked_query_row"]:
        used[0] = False
    return used


def largest_gradient(prefix: str, model: TransformerXL, head: CrossEntropy) -> float:
    recorded = arrays(prefix)
    ours = {**dict(model.named_parameters(remove_duplicate=False)), "lm_bias": head.bias}
    theirs = from_official(recorded, n_layer=model.n_layer)
    if LM_BIAS in recorded:
        theirs["lm_bias"] = recorded[LM_BIAS]
    assert theirs, prefix
    worst = 0.0
    for name, expected in theirs.items():
        gradient = ours[name].grad
        assert gradient is not None, f"{name} got no gradient"
        worst = max(worst, largest(gradient, expected))
    for name, parameter in ours.items():
        if name not in theirs:
            assert parameter.grad is None or not parameter.grad.any(), f"{name} got a gradient and should not"
    return worst


@pytest.mark.parametrize("backend", [Naive(), Sdpa()], ids=lambda b: b.name)
@pytest.mark.parametrize(("name", "dtype"), RECORDED, ids=str)
def test_official_case(name: str, dtype: torch.dtype, backend: object) -> None:
    worst = compare(name, dtype, backend)
    allowed = TOLERANCE[dtype]
    for key, difference in worst.items():
        note("model", name, key, precision(dtype)[:3], difference)
        assert difference <= allowed.get(key, allowed["output"]), (key, difference)


def test_a_reader_that_sees_nothing_reads_nothing() -> None:
    """Where the official code averages over every key, the answer among them, ours passes the residual on alone."""
    name = "tm_fullblocked"
    model, _ = build(CASES["cases"][name], torch.float64, Naive())
    inputs = arrays(f"{name}/seg0/")
    streams = official_streams(CASES["cases"][name], inputs, mem_len=0)
    output = model(streams).query[0, 0]

    alone = model.query_embedding
    for layer in model.layers:
        alone = layer.feed_forward(layer.norm(alone))
    torch.testing.assert_close(output, alone, rtol=0, atol=1e-12)
    recorded = inputs["f64/output"][0, 0]
    assert float((output - recorded).detach().abs().max()) > 1e-3, "the official average leaves a trace here"
