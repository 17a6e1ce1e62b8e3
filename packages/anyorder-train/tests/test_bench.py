"""What benchmarks rest on: timing in turn, the floor's products, and the gate that refuses figures without parity."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from anyorder.attention import Naive
from anyorder.train.bench import DisagreementError, bench_memory, save, track
from anyorder.train.bench import attention as bench_attention_module
from anyorder.train.bench.attention import disagreement
from anyorder.train.bench.decode import decode_agreement
from anyorder.train.bench.floor import ProductRecorder, replay
from anyorder.train.bench.gate import require_agreement
from anyorder.train.bench.harness import Timing, interleave, ratio
from anyorder.train.bench.workload import Shape, agreement


def test_subjects_run_in_turn_and_warm_up_uncounted() -> None:
    calls: list[str] = []
    timings = interleave({name: lambda name=name: calls.append(name) for name in "ab"}, rounds=3, warmup=2)
    assert calls == ["a", "b"] * 5
    assert {name: len(timing.wall) for name, timing in timings.items()} == {"a": 3, "b": 3}


def test_a_ratio_is_the_median_of_each_rounds_own() -> None:
    slow = Timing(wall=(2.0, 40.0, 6.0), cpu=(1.0,) * 3)
    fast = Timing(wall=(1.0, 10.0, 2.0), cpu=(1.0,) * 3)
    assert ratio(slow, fast) == 3.0


def test_the_floor_replays_the_products_of_forward_and_backward() -> None:
    layer, x = nn.Linear(8, 16), torch.randn(4, 8, requires_grad=True)
    with ProductRecorder() as recorder:
        (layer(x) @ torch.randn(3, 16, 5)).sum().backward()
    run, flops = replay(recorder.products)
    run()
    # 4x8 @ 8x16 with both gradients, and 3 times 4x16 @ 16x5 with the gradient of its left factor.
    assert flops == 3 * 2 * 4 * 8 * 16 + 2 * 3 * 2 * 4 * 16 * 5


@pytest.mark.parametrize("value", [1e-3, float("nan")])
def test_the_gate_refuses_what_is_not_under_its_limit(value: float) -> None:
    assert require_agreement("a and b", 1e-7, limit=1e-5) == 1e-7
    with pytest.raises(DisagreementError, match="a and b differ"):
        require_agreement("a and b", value, limit=1e-5)


SMALL = Shape(rows=2, layers=2, length=64, reuse=32, memory=48, targets=16)


def test_our_step_and_transformers_agree() -> None:
    assert agreement(SMALL) < 1e-5


def test_a_wrong_step_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    call = Naive.__call__
    monkeypatch.setattr(Naive, "__call__", lambda self, *args, **kwargs: call(self, *args, **kwargs) * 1.001)
    assert agreement(SMALL, attention="naive") > 1e-4


def test_our_tokens_and_transformers_agree() -> None:
    assert decode_agreement(SMALL) < 1e-4


@pytest.mark.parametrize("backend", ["sdpa", "chunked", "tiled"])
def test_backends_agree(backend: str) -> None:
    assert disagreement(backend) < 1e-4


def test_no_memory_is_reported_of_a_wrong_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_attention_module, "disagreement", lambda backend: 0.5)
    with pytest.raises(DisagreementError, match="chunked and naive"):
        bench_memory()


RESULT = {
    "bench": "attention",
    "settings": {"length": 8},
    "timings": {"naive": {"wall_median": 1.0, "wall_min": 0.5, "wall_max": 2.0, "cpu_median": 1.5, "rounds": 3}},
    "ratios": {"naive / naive, time": 1.0},
    "where": {"cores": 2},
}


def test_a_result_is_kept_as_text_json_picture_and_run(tmp_path: Path) -> None:
    files = save(RESULT, tmp_path, name="attention-8")
    assert json.loads(files[0].read_text()) == RESULT
    assert "naive / naive, time" in files[1].read_text()
    assert files[2].read_bytes().startswith(b"\x89PNG")
    track(RESULT, files, name="attention-8", folder=tmp_path)

    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("benchmarks")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.data.metrics == {
        "timings/naive/wall_median": 1.0,
        "timings/naive/wall_min": 0.5,
        "timings/naive/wall_max": 2.0,
        "timings/naive/cpu_median": 1.5,
        "timings/naive/rounds": 3.0,
        "ratios/naive / naive time": 1.0,
    }
    assert run.data.params == {"bench": "attention", "settings.length": "8", "where.cores": "2"}
    assert {item.path for item in client.list_artifacts(run.info.run_id)} >= {path.name for path in files}
