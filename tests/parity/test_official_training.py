"""Seven recorded steps of official pretraining, replayed by an objective with memory, clipping and the optimiser."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from anyorder.attention import Naive, SegmentBias, TransformerXLBias
from anyorder.core import MemoryState, Plan, TokenBatch, Vocab
from anyorder.data import Tokenizer
from anyorder.hf import import_tf
from anyorder.hf.official import LM_BIAS, from_official
from anyorder.losses import CrossEntropy
from anyorder.masks import TwoStream
from anyorder.memory import SegmentMemory
from anyorder.models import TransformerXL
from anyorder.orders import AllTargets, Permutation
from anyorder.train.initial import load_initial
from anyorder.train.objective import Objective
from anyorder.train.xlnet_adam import OfficialAdam, XLNetAdam
from anyorder.train.xlnet_schedule import XLNetSchedule

from .ledger import note

GOLDEN = Path(__file__).parents[1] / "data" / "golden"
FLAGS = {name: case["flags"] for name, case in json.loads((GOLDEN / "train.json").read_text()).items()}
ARRAYS = {name: dict(np.load(GOLDEN / f"train_{name}.npz")) for name in FLAGS}
STEPS, CHECKPOINT = 7, 4
LOSS, WEIGHTS, GRADIENTS, MEMORY, NORM = 1e-5, 5e-5, 2e-5, 5e-5, 1e-4


def named(run: str, prefix: str) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): torch.from_numpy(a) for key, a in ARRAYS[run].items() if key.startswith(prefix)}


def ours(variables: dict[str, Tensor], objective: Objective) -> dict[str, Tensor]:
    """Official variables, or their gradients or slots, by the names of the objective's parameters, each once."""
    state = {f"backbone.{k}": v for k, v in from_official(variables, n_layer=objective.backbone.n_layer).items()}
    state["heads.loss.bias"] = variables[LM_BIAS]
    wanted = dict(objective.named_parameters())
    assert wanted.keys() <= state.keys()
    return {name: state[name] for name in wanted}


def build(run: str, dtype: torch.dtype) -> tuple[Objective, OfficialAdam, XLNetSchedule]:
    flags = FLAGS[run]
    sizes = {key: flags[key] for key in ("n_layer", "d_model", "n_head", "d_head", "d_inner")}
    objective = Objective(
        order=Permutation(targets=AllTargets(), perm_size=32),  # not asked: every plan is given
        masks=TwoStream(),
        heads={"loss": CrossEntropy(vocab_size=flags["n_token"])},
        backbone=TransformerXL(
            vocab_size=flags["n_token"],
            attention=Naive(),
            biases=(TransformerXLBias, SegmentBias),
            dropout=flags["dropout"],
            attention_dropout=flags["dropatt"],
            activation=flags["ff_activation"],
            untie_biases=flags["untie_r"],
            **sizes,
        ),
        memory=SegmentMemory(mem_len=flags["mem_len"], reuse_len=flags["reuse_len"], initial="zeros"),
        vocab=Vocab(size=flags["n_token"]),
    ).to(dtype)
    optimizer = XLNetAdam(
        lr=flags["learning_rate"],
        eps=flags["adam_epsilon"],
        weight_decay=flags["weight_decay"],
        gradient_layer_decay=flags["lr_layer_decay_rate"],
    ).build(objective)
    schedule = XLNetSchedule(warmup=flags["warmup_steps"], decay="linear", min_ratio=flags["min_lr_ratio"])
    assert flags["decay_method"] == "poly"
    return objective, optimizer, schedule


def segment(run: str, step: int) -> tuple[TokenBatch, Plan, Tensor]:
    """The tokens of a step, the order that its mask stands for, and the recorded labels.

    The sets of what tokens see are nested, so the size of a token's own set is the time at which it becomes known.
    """
    record = named(run, f"step{step}/")
    ids = record["input_k"].long()
    batch = TokenBatch.of(ids, segment=record["seg_id"].long())
    if FLAGS[run]["bi_data"]:
        direction = torch.ones(batch.rows, dtype=torch.long)
        direction[batch.rows // 2 :] = -1
        batch = replace(batch, direction=direction)
    sees = (record["perm_mask"] == 0) | torch.eye(batch.length, dtype=torch.bool)
    plan = Plan.of(sees.sum(-1), record["target_mapping"].sum(1) > 0)
    assert torch.equal(record["target_mask"].sum(1).long(), plan.target.sum(1))
    return batch, plan, torch.where(record["target_mask"] > 0, record["target"].long(), 0)


def load_parameters(objective: Objective, values: dict[str, Tensor]) -> None:
    with torch.no_grad():
        for name, parameter in objective.named_parameters():
            parameter.copy_(values[name])


def go_on_from_the_checkpoint(run: str, objective: Objective, optimizer: OfficialAdam, folder: Path) -> str:
    """As ``anyorder import tf --optimizer`` and ``anyorder train --from`` do it."""
    pieces = GOLDEN / "spm" / "spiece.model"
    import_tf(GOLDEN / f"ckpt_{run}", tokenizer=pieces, optimizer=True).save(folder)
    moments = load_initial(objective, folder, tokenizer=Tokenizer.load(pieces))
    assert moments is not None
    return moments.give(objective, optimizer)


def assert_memory(state: MemoryState, recorded: np.ndarray) -> None:
    theirs = torch.from_numpy(recorded).transpose(1, 2)
    torch.testing.assert_close(torch.stack(state.layers).to(theirs.dtype), theirs, rtol=0, atol=MEMORY)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("start", [0, CHECKPOINT], ids=["from_init", "from_checkpoint"])
@pytest.mark.parametrize("run", sorted(FLAGS))
def test_recorded_steps(run: str, start: int, dtype: torch.dtype, tmp_path: Path) -> None:
    objective, optimizer, schedule = build(run, dtype)
    flags, log = FLAGS[run], {key: ARRAYS[run][f"log/{key}"] for key in ("loss", "gnorm", "lr", "dense_gnorm")}
    assert np.array_equal(log["gnorm"], log["dense_gnorm"])  # no norm here is one of un-merged rows
    memory = objective.empty_memory(ARRAYS[run]["step0/input_k"].shape[0])
    if start:
        said = go_on_from_the_checkpoint(run, objective, optimizer, tmp_path / "imported")
        count = len(list(objective.parameters()))
        assert said == (
            f"the optimiser goes on from step {CHECKPOINT} of {tmp_path}/imported, with the moments of {count} weights"
        )
        past = torch.from_numpy(ARRAYS[run]["mems_after_step3"]).to(dtype)
        memory = replace(memory, layers=tuple(layer.transpose(0, 1) for layer in past))
    else:
        load_parameters(objective, ours(named(run, "init/"), objective))

    for step in range(start, STEPS):
        batch, plan, labels = segment(run, step)
        streams = objective.prepare(batch, seed=0, step=step, plan=plan, num_targets=flags["num_predict"])
        assert torch.equal(streams.readouts["loss"].labels, labels)
        output = objective(streams, memory)
        loss = objective.total(output.losses, objective.weight_sums(streams))
        assert float(loss.detach()) == pytest.approx(float(log["loss"][step]), abs=LOSS)
        keep(run, start, "loss", dtype, loss.detach() - float(log["loss"][step]))
        loss.backward()
        if f"step{step}/grad/{LM_BIAS}" in ARRAYS[run]:
            for name, expected in ours(named(run, f"step{step}/grad/"), objective).items():
                gradient = dict(objective.named_parameters())[name].grad
                torch.testing.assert_close(
                    gradient, expected.to(dtype), rtol=0, atol=GRADIENTS, msg=f"{name} at {step}"
                )
                keep(run, start, "gradient", dtype, gradient - expected)
        norm = nn.utils.clip_grad_norm_(objective.parameters(), flags["clip"])
        assert float(norm) == pytest.approx(float(log["gnorm"][step]), rel=NORM)
        rate = flags["learning_rate"] * schedule.factor(step + 1, steps=flags["train_steps"])
        assert rate == pytest.approx(float(log["lr"][step]), rel=1e-5, abs=1e-9)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        optimizer.zero_grad()
        memory = output.memory
        if step == 3:
            assert_memory(memory, ARRAYS[run]["mems_after_step3"])
            values = load_file(GOLDEN / f"ckpt_{run}" / "values.safetensors")
            assert_parameters(objective, values, dtype)
    assert_memory(memory, ARRAYS[run]["final_mems"])
    final = torch.from_numpy(ARRAYS[run]["final_mems"]).transpose(1, 2)
    keep(run, start, "memory at the end", dtype, torch.stack(memory.layers) - final)
    assert_parameters(objective, named(run, "final/"), dtype)
    for name, expected in ours(named(run, "final/"), objective).items():
        keep(run, start, "weights at the end", dtype, dict(objective.named_parameters())[name].detach() - expected)


@pytest.mark.parametrize("run", sorted(FLAGS))
def test_the_step_after_a_checkpoint_needs_its_moments(run: str, tmp_path: Path) -> None:
    """What the steps above would not show if moments were without weight."""
    ends = []
    for keep_moments in (True, False):
        objective, optimizer, _ = build(run, torch.float64)
        go_on_from_the_checkpoint(run, objective, optimizer, tmp_path / str(keep_moments))
        if not keep_moments:
            optimizer.state.clear()
        batch, plan, _ = segment(run, CHECKPOINT)
        streams = objective.prepare(batch, seed=0, step=CHECKPOINT, plan=plan, num_targets=FLAGS[run]["num_predict"])
        memory = objective.empty_memory(batch.rows)
        objective.total(objective(streams, memory).losses, objective.weight_sums(streams)).backward()
        optimizer.step()
        ends.append(objective.embedding.detach())
    assert float((ends[0] - ends[1]).abs().max()) > 2 * WEIGHTS


def keep(run: str, start: int, quantity: str, dtype: torch.dtype, difference: Tensor) -> None:
    case = f"{run}, from {'the checkpoint at step 4' if start else 'initial weights'}"
    note("training", case, quantity, "f64" if dtype == torch.float64 else "f32", float(difference.abs().max()))


def assert_parameters(objective: Objective, variables: dict[str, Tensor], dtype: torch.dtype) -> None:
    for name, expected in ours(variables, objective).items():
        found = dict(objective.named_parameters())[name].detach()
        torch.testing.assert_close(found, expected.to(dtype), rtol=0, atol=WEIGHTS, msg=lambda m, n=name: f"{n}: {m}")
