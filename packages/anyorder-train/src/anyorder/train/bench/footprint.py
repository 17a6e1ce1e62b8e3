"""Peak memory of a call in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["measure", "peak_above_start"]

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def _field(name: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024


def peak_above_start(call: Any) -> int:
    """Bytes by which resident memory rises above where it stands, at most, while ``call`` runs (Linux)."""
    _CLEAR.write_text("5")  # the high-water mark starts again from here
    start = _field("VmRSS")
    call()
    return max(_field("VmHWM") - start, 0)


def measure(module: str, arguments: dict[str, Any], *, timeout: float = 1800) -> dict[str, Any]:
    """Run ``python -m module`` with JSON arguments in a fresh process and return the JSON object it prints last.

    Freed blocks go back to the system at once there, so that the peak is of what is alive.
    """
    environ = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0"}
    done = subprocess.run(
        [sys.executable, "-m", module, json.dumps(arguments)],
        env=environ,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{module} failed: {done.stderr.strip().splitlines()[-1:]}")
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result
