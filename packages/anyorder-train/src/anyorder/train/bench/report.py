"""What a benchmark says, as text, JSON and a picture, with the machine and the versions it was measured on."""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from ..atomic import write_text

__all__ = ["as_text", "save", "where"]


def where() -> dict[str, Any]:
    """The machine in words and the versions that matter."""
    found: dict[str, Any] = {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load_before": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
    }
    for package in ("anyorder", "torch", "transformers", "xformers"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def as_text(result: dict[str, Any]) -> str:
    """A table of medians, then the ratios that the benchmark is about."""
    settings = ", ".join(f"{key} {value}" for key, value in result["settings"].items())
    lines = [f"{result['bench']}: {settings}", ""]
    timings = result.get("timings", {})
    if timings:
        lines.append(f"{'':<28}{'median s':>10}{'min s':>10}{'max s':>10}{'CPU s':>10}")
        for name, timing in timings.items():
            figures = (timing[key] for key in ("wall_median", "wall_min", "wall_max", "cpu_median"))
            lines.append(f"{name:<28}" + "".join(f"{figure:>10.4f}" for figure in figures))
        lines.append("")
    for key in ("peak_bytes", "peak_activation_bytes"):
        for name, size in result.get(key, {}).items():
            lines.append(f"{name:<28}{size / 2**20:>10.0f} MiB peak")
    for key, unit in (("milliseconds_a_sequence", "ms a sequence"), ("tokens_a_second", "tokens a second")):
        lines += [f"{name:<28}{value:>10.3f} {unit}" for name, value in result.get(key, {}).items()]
    lines += [f"{name:<44}{value:>8.3f}" for name, value in result["ratios"].items()]
    return "\n".join(lines)


def save(result: dict[str, Any], folder: Path, *, name: str) -> list[Path]:
    """Write ``NAME.json``, ``NAME.txt`` and ``NAME.png``, each whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / f"{name}.json", folder / f"{name}.txt"]
    write_text(written[0], json.dumps(result, indent=2) + "\n")
    write_text(written[1], as_text(result) + "\n")
    picture = folder / f"{name}.png"
    _draw(result, picture)
    return [*written, picture]


def _draw(result: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    timings = result.get("timings", {})
    if timings:
        label = "seconds (median; line from least to most)"
        values = {name: timing["wall_median"] for name, timing in timings.items()}
        spread = {name: (timing["wall_min"], timing["wall_max"]) for name, timing in timings.items()}
    else:
        label, spread = "MiB at the peak", {}
        values = {name: size / 2**20 for name, size in result["peak_bytes"].items()}
    figure, axes = plt.subplots(figsize=(7, 0.6 + 0.45 * len(values)))
    names = list(values)[::-1]
    axes.barh(names, [values[name] for name in names], color="#1f4e79")
    for row, name in enumerate(names):
        if name in spread:
            axes.plot(spread[name], [row, row], color="#d95f02", linewidth=1.5)
    axes.set_xlabel(label)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    beside = path.with_suffix(".part.png")
    figure.savefig(beside, dpi=130)
    plt.close(figure)
    beside.replace(path)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
