"""A run to be killed: trains a small PLM with dropout and memory, told by arguments where to be slow.

Usage: driver.py FOLDER [--slow-write]. With ``--slow-write`` every flush of a file to disk first says ``writing`` on
standard output and then takes a while, so that a test can kill the process inside a checkpoint.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "packages/anyorder-train/tests"))

from small_training import CountingText, small_fit, small_objective

from anyorder.train import atomic
from anyorder.train.progress import SilentProgress

STEPS = 24


class Announcing(SilentProgress):
    def step(self, record: dict) -> None:
        print("step", record["step"], flush=True)


def slow_fsync(path: Path) -> None:
    print("writing", path.name.rsplit("-", 1)[0], flush=True)  # without the process's number
    time.sleep(0.3)
    fsync(path)


fsync = atomic.fsync

if __name__ == "__main__":
    if "--slow-write" in sys.argv:
        atomic.fsync = slow_fsync
    small_fit(
        Path(sys.argv[1]),
        objective=small_objective("plm", dropout=0.2),
        valid=CountingText(purpose="held out"),
        steps=STEPS,
        checkpoint_every=5,
        eval_every=4,
        progress=Announcing(),
        resume=True,
    )
    print("done", flush=True)
