"""Every recorded case of the official heads, through our parts: outputs, losses, gradients."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from anyorder.attention import Naive, SegmentBias, TransformerXLBias
from anyorder.core import MemoryState, Slots, Streams, TokenBatch
from anyorder.hf.official import LM_BIAS, from_official
from anyorder.hf.official_heads import (
    multiple_choice_from_official,
    question_answering_from_official,
    summary_from_official,
    task_from_official,
)
from anyorder.losses import (
    CrossEntropy,
    MultipleChoice,
    QuestionAnswering,
    SequenceClassification,
    SequenceRegression,
    SequenceSummary,
)
from anyorder.memory import SegmentMemory
from anyorder.models import TransformerXL

from .ledger import note
from .official_streams import official_streams

GOLDEN = Path(__file__).parents[1] / "data" / "golden"
RECORD = json.loads((GOLDEN / "head_cases.json").read_text())
CASES, CONFIG = RECORD["cases"], RECORD["config"]
WEIGHTS = load_file(GOLDEN / "model_weights_heads.safetensors")
ARRAYS = dict(np.load(GOLDEN / "head_cases.npz"))
PRECISIONS = [torch.float64, torch.float32]
TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-5}
LOSS_TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
_QUANTITY = {"per_example_loss": "loss", "total_loss": "loss", "new_mems": "new_mems"}
POOLED = [name for name in CASES if name.startswith("pooled")]


def named(prefix: str) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): torch.from_numpy(a) for key, a in ARRAYS.items() if key.startswith(prefix)}


def precision(dtype: torch.dtype) -> str:
    return "f64" if dtype == torch.float64 else "f32"


def load(module: nn.Module, state: dict[str, Tensor], dtype: torch.dtype) -> nn.Module:
    module.to(dtype).load_state_dict({name: value.to(dtype) for name, value in state.items()})
    return module.eval()


def backbone(dtype: torch.dtype) -> TransformerXL:
    sizes = {key: CONFIG[key] for key in ("n_layer", "d_model", "n_head", "d_head", "d_inner")}
    model = TransformerXL(
        vocab_size=CONFIG["n_token"], attention=Naive(), biases=(TransformerXLBias, SegmentBias), **sizes
    )
    return load(model, from_official(WEIGHTS, n_layer=CONFIG["n_layer"]), dtype)


def summary(pooling: str, dtype: torch.dtype, *, project: bool = True) -> SequenceSummary:
    module = SequenceSummary(
        d_model=CONFIG["d_model"],
        pooling={"last": "token", "first": "token", "attn": "attention"}.get(pooling, pooling),
        project=project,
        n_head=CONFIG["n_head"],
    )
    wanted = module.state_dict()
    return load(module, {k: v for k, v in summary_from_official(WEIGHTS).items() if k in wanted}, dtype)


def places(pooling: str, padding: Tensor) -> dict[str, Tensor]:
    """What the official pooling comes to: plain indices, and a mean over padding too."""
    rows, length = padding.shape
    return {
        "last": {"index": torch.full((rows,), length - 1)},
        "first": {"index": torch.zeros(rows, dtype=torch.long)},
        "mean": {"real": torch.ones_like(padding)},
        "attn": {"real": ~padding},
    }[pooling]


def encoder_streams(ids: Tensor, segment: Tensor, padding: Tensor) -> Streams:
    """All real tokens see each other. A padding token sees them and itself, and nobody sees it.

    The last of it matters only where padding is read: its slot is born and dies at a time of its own.
    """
    batch = TokenBatch.of(ids.long(), segment=segment.long())
    place = torch.arange(1, ids.shape[1] + 1).expand_as(batch.ids)
    born = torch.where(padding, place, 0)
    died = torch.where(padding, place, ids.shape[1] + 1)
    content = Slots.of_tokens(batch, born)
    return Streams(content=Slots(**{**vars(content), "death": died}))


def states(model: TransformerXL, case: str) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Hidden states and padding ``[B, N]`` of a case, and its other inputs."""
    inputs = named(f"{case}/in/")
    ids, padding = inputs["input_ids"], inputs["input_mask"] > 0
    segment = inputs["seg_ids"] if "seg_ids" in inputs else inputs["segment_ids"]
    if case.startswith("pooled"):
        ids, padding, segment = ids.T, padding.T, segment.T
    elif case == "race":
        ids, padding, segment = (x.reshape(x.shape[0] * 4, -1) for x in (ids, padding, segment))
    return model(encoder_streams(ids, segment, padding)).content, padding, inputs


def assert_close(ours: Tensor, case: str, name: str, dtype: torch.dtype, *, atol: float | None = None) -> None:
    recorded = torch.from_numpy(np.asarray(ARRAYS[f"{case}/{precision(dtype)}/{name}"])).to(dtype)
    atol = TOLERANCE[dtype] if atol is None else atol
    relative = 1e-6 if dtype == torch.float32 else 1e-14  # of entries near -1e30
    allowed = atol + relative * recorded.abs() * (recorded.abs() > 1e29)
    difference = (ours.detach() - recorded).abs()
    assert ours.shape == recorded.shape
    assert bool((difference <= allowed).all()), (name, float(difference.max()))
    possible = difference[recorded.abs() < 1e29]  # elsewhere both are about -1e30: impossible places
    note("heads", case, _QUANTITY.get(name, "output"), precision(dtype), float(possible.max()))


def assert_gradients(case: str, dtype: torch.dtype, modules: dict[str, nn.Module]) -> None:
    """Every recorded gradient is ours, and we have no other."""
    recorded = named(f"{case}/{precision(dtype)}_grad/")
    expected = {f"backbone.{k}": v for k, v in from_official(recorded, n_layer=CONFIG["n_layer"]).items()}
    for name, read in {
        "summary": summary_from_official,
        "choice": multiple_choice_from_official,
        "answer": question_answering_from_official,
        "task": task_from_official,
    }.items():
        expected |= {f"{name}.{k}": v for k, v in read(recorded).items()}
    if LM_BIAS in recorded:
        expected["lm.bias"] = recorded[LM_BIAS]
    ours = {f"{key}.{name}": p for key, module in modules.items() for name, p in module.named_parameters()}
    assert len(expected) >= len(recorded) > 0
    assert expected.keys() <= ours.keys()
    for name, parameter in ours.items():
        if name in expected:
            torch.testing.assert_close(
                parameter.grad,
                expected[name].to(dtype),
                rtol=0,
                atol=TOLERANCE[dtype],
                msg=lambda m, n=name: f"{n}: {m}",
            )
            difference = (parameter.grad - expected[name].to(dtype)).abs().max()
            note("heads", case, "gradient", precision(dtype), float(difference))
        else:
            assert parameter.grad is None or not parameter.grad.any(), f"{name} got a gradient and should not"


@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
@pytest.mark.parametrize("case", POOLED)
def test_pooled(case: str, dtype: torch.dtype) -> None:
    _, pooling, projected = case.split("_")
    hidden, padding, _ = states(backbone(dtype), case)
    assert_close(hidden.transpose(0, 1), case, "sequence_output", dtype)
    pooled = summary(pooling, dtype, project=projected == "proj")(hidden, **places(pooling, padding))
    assert_close(pooled, case, "pooled", dtype)


@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
@pytest.mark.parametrize("pooling", ["last", "mean", "first"])
def test_classification(pooling: str, dtype: torch.dtype) -> None:
    case = f"classification_{pooling}"
    model, pool = backbone(dtype), summary(pooling, dtype)
    head = SequenceClassification(d_model=CONFIG["d_model"], classes=3)
    load(head, task_from_official(WEIGHTS, task="mnli"), dtype)
    hidden, padding, inputs = states(model, case)
    output = head(pool(hidden, **places(pooling, padding)), labels=inputs["label_ids"].flatten().long())
    assert_close(output.logits, case, "logits", dtype)
    assert_close(output.loss.per_target.squeeze(1), case, "per_example_loss", dtype)
    mean = output.loss.loss_sum / output.loss.weight_sum
    assert_close(mean, case, "total_loss", dtype, atol=LOSS_TOLERANCE[dtype])
    if pooling == "last":
        mean.backward()
        assert_gradients(case, dtype, {"backbone": model, "summary": pool, "task": head})


@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
def test_regression(dtype: torch.dtype) -> None:
    model, pool = backbone(dtype), summary("last", dtype)
    head = SequenceRegression(d_model=CONFIG["d_model"])
    load(head, task_from_official(WEIGHTS, task="sts-b"), dtype)
    hidden, padding, inputs = states(model, "regression")
    output = head(pool(hidden, **places("last", padding)), labels=inputs["label_ids"])
    assert_close(output.logits, "regression", "logits", dtype)
    assert_close(output.loss.per_target.squeeze(1), "regression", "per_example_loss", dtype)
    mean = output.loss.loss_sum / output.loss.weight_sum
    assert_close(mean, "regression", "total_loss", dtype, atol=LOSS_TOLERANCE[dtype])
    mean.backward()
    assert_gradients("regression", dtype, {"backbone": model, "summary": pool, "task": head})


@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
def test_multiple_choice(dtype: torch.dtype) -> None:
    model, pool = backbone(dtype), summary("last", dtype)
    head = MultipleChoice(d_model=CONFIG["d_model"])
    load(head, multiple_choice_from_official(WEIGHTS), dtype)
    hidden, padding, inputs = states(model, "race")
    output = head(pool(hidden, **places("last", padding)), labels=inputs["label_ids"].long())
    assert_close(output.logits, "race", "logits", dtype)
    assert_close(output.loss.per_target.squeeze(1), "race", "per_example_loss", dtype)
    mean = output.loss.loss_sum / output.loss.weight_sum
    assert_close(mean, "race", "total_loss", dtype, atol=LOSS_TOLERANCE[dtype])
    mean.backward()
    assert_gradients("race", dtype, {"backbone": model, "summary": pool, "choice": head})


def answers(dtype: torch.dtype) -> QuestionAnswering:
    head = QuestionAnswering(d_model=CONFIG["d_model"])
    load(head, question_answering_from_official(WEIGHTS), dtype)
    return head


@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
def test_question_answering_given_the_start(dtype: torch.dtype) -> None:
    case = "squad_train_outputs"
    hidden, _, inputs = states(backbone(dtype), case)
    scores = answers(dtype)(
        hidden,
        allowed=inputs["p_mask"] == 0,
        cls_index=inputs["cls_index"].flatten().long(),
        start=inputs["start_positions"].flatten().long(),
    )
    assert_close(scores.start, case, "start_log_probs", dtype)
    assert_close(scores.end, case, "end_log_probs", dtype)
    assert_close(scores.unanswerable, case, "cls_logits", dtype)
    assert scores.loss is None


@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
def test_question_answering_by_search(dtype: torch.dtype) -> None:
    case = "squad_infer"
    hidden, _, inputs = states(backbone(dtype), case)
    beam = answers(dtype).search(
        hidden, allowed=inputs["p_mask"] == 0, cls_index=inputs["cls_index"].flatten().long(), starts=5, ends=5
    )
    assert_close(beam.start, case, "start_top_log_probs", dtype)
    assert_close(beam.end.flatten(1), case, "end_top_log_probs", dtype)
    assert_close(beam.unanswerable, case, "cls_logits", dtype)
    recorded = named(f"{case}/{precision(dtype)}/")
    likely = recorded["start_top_log_probs"] > -1e29  # the order among forbidden places is anybody's
    assert torch.equal(beam.start_index[likely], recorded["start_top_index"].long()[likely])
    likely = (recorded["end_top_log_probs"] > -1e29) & likely.repeat_interleave(5, dim=1)
    assert torch.equal(beam.end_index.flatten(1)[likely], recorded["end_top_index"].long()[likely])
    assert int(likely.sum()) >= 50


@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
def test_question_answering_loss(dtype: torch.dtype) -> None:
    case = "squad_train_loss"
    model, head = backbone(dtype), answers(dtype)
    hidden, _, inputs = states(model, case)
    scores = head(
        hidden,
        allowed=inputs["p_mask"] == 0,
        cls_index=inputs["cls_index"].flatten().long(),
        start=inputs["start_positions"].long(),
        end=inputs["end_positions"].long(),
        impossible=inputs["is_impossible"],
    )
    mean = scores.loss.loss_sum / scores.loss.weight_sum
    assert_close(mean, case, "total_loss", dtype, atol=LOSS_TOLERANCE[dtype])
    mean.backward()
    assert_gradients(case, dtype, {"backbone": model, "answer": head})


@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
@pytest.mark.parametrize("case", ["pretrain_loss_np6", "pretrain_loss_dense"])
def test_pretraining_loss(case: str, dtype: torch.dtype) -> None:
    """One step of the official pretraining graph: two directions, memory in and out, the loss of the targets."""
    inputs = named(f"{case}/in/")
    order = {3: (1, 2, 0), 2: (1, 0)}
    official = {name: x.permute(order[x.ndim]) for name, x in inputs.items() if name != "mems_in"}
    official |= {"inp_k": official.pop("input_k"), "inp_q": official.pop("input_q")}
    traits = {
        "bi_data": True,
        "seg": True,
        "attn_type": "bi",
        "same_length": False,
        "fully_blocked_query_row": False,
        "stream": "tm" if "target_mapping" in inputs else "inpq",
    }
    memory = SegmentMemory(mem_len=12, reuse_len=8, initial="zeros")
    model, head = backbone(dtype), CrossEntropy(vocab_size=CONFIG["n_token"])
    load(head, {"bias": WEIGHTS[LM_BIAS]}, dtype)
    rows = inputs["input_k"].shape[0]
    empty = memory.empty(rows=rows, layers=model.n_layer, width=model.d_model, device="cpu", dtype=dtype)
    past = tuple(layer.transpose(0, 1).to(dtype) for layer in inputs["mems_in"])
    state = MemoryState(layers=past, position=empty.position, doc=empty.doc, segment=empty.segment)

    streams = official_streams(traits, official, mem_len=12)
    output = model(streams, state)
    readout = streams.readouts["targets"]
    loss = head(readout.gather(output.stream(readout.stream)), readout, embedding=model.embedding.weight)
    mean = loss.loss_sum / loss.weight_sum
    assert_close(mean, case, "total_loss", dtype, atol=LOSS_TOLERANCE[dtype])
    state = memory.extend(state, output.layer_inputs, content=streams.content)
    assert_close(torch.stack(state.layers).transpose(1, 2), case, "new_mems", dtype)
    mean.backward()
    assert_gradients(case, dtype, {"backbone": model, "lm": head})


def test_every_recorded_case_is_tested() -> None:
    tested = {*POOLED, *(f"classification_{pooling}" for pooling in ("last", "mean", "first")), "regression", "race"}
    tested |= {"squad_train_outputs", "squad_infer", "squad_train_loss", "pretrain_loss_np6", "pretrain_loss_dense"}
    assert tested == set(CASES)
    assert len(CASES) == 18
