"""Half precision on a processor that only emulates it is said to be slow before the hours are gone."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
from small_training import small_fit

from anyorder.train import trainer
from anyorder.train.precision import slow_bf16


def test_only_a_processor_without_the_instructions_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    for supported in (True, False):
        monkeypatch.setattr(
            torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda supported=supported: supported, raising=False
        )
        assert (slow_bf16(torch.device("cpu")) is None) == supported
        assert slow_bf16(torch.device("cuda")) is None


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_a_slow_run_warns_at_its_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str) -> None:
    monkeypatch.setattr(trainer, "slow_bf16", lambda device: "this processor is slow at it")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        small_fit(tmp_path / "run", precision=precision)
    said = [str(warning.message) for warning in caught if "this processor is slow at it" in str(warning.message)]
    assert len(said) == (precision == "bf16")
