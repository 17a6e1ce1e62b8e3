"""Training curves of a run, drawn from its metrics log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

__all__ = ["draw_curves"]

_SMOOTHING = 0.02  # of the number of steps


def draw_curves(records: Sequence[Mapping[str, Any]], folder: Path, *, title: str = "") -> list[Path]:
    """Draw loss, learning rate and gradient norm over steps into ``curves.png`` and ``curves.svg``.

    Returns:
        the files; none where there are no records.
    """
    if not records:
        return []
    steps = [record["step"] for record in records]
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    loss_axes, rate_axes = figure.subplots(1, 2, width_ratios=[3, 2])
    loss = [record["loss"] for record in records]
    loss_axes.plot(steps, loss, color="0.8", linewidth=0.8, label="a step")
    loss_axes.plot(steps, _running_mean(loss), color="C0", label="training, running mean")
    valid = [(record["step"], record["valid/loss"]) for record in records if "valid/loss" in record]
    if valid:
        loss_axes.plot(*zip(*valid, strict=True), "o-", color="C1", markersize=3, label="held out")
    loss_axes.set(xlabel="step", ylabel="loss (nats a target)", title=title)
    loss_axes.legend(frameon=False)
    rate_axes.plot(steps, [record["lr"] for record in records], color="C2")
    rate_axes.set(xlabel="step", ylabel="learning rate")
    norm_axes = rate_axes.twinx()
    norm_axes.plot(steps, [record["grad_norm"] for record in records], color="0.7", linewidth=0.8)
    norm_axes.set(ylabel="gradient norm before clipping (grey)", yscale="log")
    files = [folder / "curves.png", folder / "curves.svg"]
    for file in files:
        figure.savefig(file, dpi=150)
    return files


def _running_mean(values: Sequence[float]) -> list[float]:
    """Exponential mean, corrected for its start."""
    rate = min(1.0, 1 / max(1.0, _SMOOTHING * len(values)))
    mean, weight, means = 0.0, 0.0, []
    for value in values:
        mean += rate * (value - mean)
        weight += rate * (1 - weight)
        means.append(mean / weight)
    return means
