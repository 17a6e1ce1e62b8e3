"""Two processes under gloo equal one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from small_training import CountingText, small_fit, small_objective

from anyorder.train.checkpoint import Checkpoint

_SCRIPT = """
import sys
sys.path.append({tests!r})
from pathlib import Path
from small_training import CountingText, small_fit, small_objective
for kind in ("plm", "clm"):
    small_fit(
        Path({folder!r}) / kind, objective=small_objective(kind), valid=CountingText(purpose="v"), steps={steps},
        accumulate={accumulate}, resume={resume}
    )
"""


def launch(tmp_path: Path, **values: object) -> None:
    script = tmp_path / "script.py"
    script.write_text(_SCRIPT.format(tests=str(Path(__file__).parent), folder=str(tmp_path / "two"), **values))
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone", str(script)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=280)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("accumulate", [1, 2])
def test_two_processes_equal_one_and_one_goes_on_where_two_left(tmp_path: Path, accumulate: int) -> None:
    launch(tmp_path, steps=6, accumulate=accumulate, resume=False)
    for kind in ("plm", "clm"):
        one = small_fit(tmp_path / "one" / kind, objective=small_objective(kind), valid=CountingText(purpose="v"))
        ours = Checkpoint.open(one.checkpoint)
        theirs = Checkpoint.open(tmp_path / "two" / kind / "checkpoints/step-00000006")
        torch.testing.assert_close(theirs.model(), ours.model(), rtol=1e-4, atol=1e-5)
        assert torch.equal(theirs.memory().doc, ours.memory().doc)
        for a, b in zip(theirs.memory().layers, ours.memory().layers, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
        # one process goes on with what two have left, at the step before the last
        (tmp_path / "two" / kind / "checkpoints/step-00000006/model.safetensors").unlink()
        with pytest.warns(UserWarning, match="Continuing from step 3"):
            again = small_fit(
                tmp_path / "two" / kind, objective=small_objective(kind), resume=True, valid=CountingText(purpose="v")
            )
        for key in ("loss", "grad_norm", "targets", "tokens", "valid/loss"):
            expected = [record[key] for record in one.records if key in record]
            assert [record[key] for record in again.records if key in record] == pytest.approx(expected, rel=1e-4)
