"""The picture of a visibility: a panel a stream, in colours that colour-blind readers can tell apart."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .visibility_view import Cell, Panel, View

__all__ = ["draw"]

# Okabe and Ito (2008), and a light grey for what is hidden.
_COLOURS = {
    Cell.HIDDEN: "#f0f0f0",
    Cell.MEMORY: "#009e73",
    Cell.GIVEN: "#56b4e9",
    Cell.EARLIER: "#0072b2",
    Cell.ITSELF: "#e69f00",
}
_MEANINGS = {
    Cell.HIDDEN: "hidden",
    Cell.MEMORY: "memory of earlier segments",
    Cell.GIVEN: "given",
    Cell.EARLIER: "target, earlier in the order",
    Cell.ITSELF: "the token itself",
}
_MOST_LABELS = 48


def draw(view: View, path: Path) -> None:
    """Write a PNG (or whatever the suffix of ``path`` says); the file appears whole or not at all."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    keys = len(view.keys)
    cell = min(0.42, 8.0 / keys) if keys <= _MOST_LABELS else max(0.03, 6.0 / keys)
    labels = keys <= _MOST_LABELS
    widest = max(len(label) for panel in view.panels for label in panel.readers) if labels else 0
    margin = 0.5 + 0.09 * widest
    width = sum(margin + cell * keys for _ in view.panels) + 0.6
    tallest = max(len(panel.readers) for panel in view.panels)
    above = 0.95 + (0.065 * max(map(len, view.keys)) if labels else 0.0)
    height = above + cell * tallest + 0.85
    figure = Figure(figsize=(max(width, 6.4), height), dpi=150)
    FigureCanvasAgg(figure)
    left = margin + max(0.0, (6.4 - width) / 2)
    for panel in view.panels:
        panel_height = cell * len(panel.readers)
        box = (
            left / figure.get_figwidth(),
            (height - above - panel_height) / height,
            cell * keys / figure.get_figwidth(),
            panel_height / height,
        )
        _draw_panel(figure.add_axes(box), panel, view, labels=labels)
        left += cell * keys + margin
    figure.suptitle(view.title, x=0.5, y=1 - 0.18 / height, fontsize=11, fontweight="bold")
    order = view.order if len(view.order) <= 90 else view.order[:87] + "..."
    figure.text(0.5, 1 - 0.62 / height, f"predicted: {order}", ha="center", fontsize=9)
    used = [c for c in Cell if any(c in row for panel in view.panels for row in panel.cells)]
    figure.legend(
        handles=[Patch(facecolor=_COLOURS[c], edgecolor="#888888", linewidth=0.5, label=_MEANINGS[c]) for c in used],
        loc="lower center",
        ncols=len(used) if figure.get_figwidth() > 2.0 * len(used) else 3,
        frameon=False,
        fontsize=8,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.stem}-{os.getpid()}{path.suffix}")
    try:
        figure.savefig(beside)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _draw_panel(axes: Any, panel: Panel, view: View, *, labels: bool) -> None:
    from matplotlib.colors import ListedColormap

    colours = ListedColormap([_COLOURS[cell] for cell in Cell])
    axes.imshow(
        [[int(cell) for cell in row] for row in panel.cells],
        cmap=colours, vmin=-0.5, vmax=len(Cell) - 0.5, aspect="auto", interpolation="nearest",
    )  # fmt: skip
    keys, readers = len(view.keys), len(panel.readers)
    if labels:
        axes.set_xticks(range(keys), view.keys, rotation=60, ha="left", rotation_mode="anchor", fontsize=8)
        axes.set_yticks(range(readers), panel.readers, fontsize=8)
        axes.xaxis.tick_top()
        axes.set_xticks([k - 0.5 for k in range(1, keys)], minor=True)
        axes.set_yticks([r - 0.5 for r in range(1, readers)], minor=True)
        axes.grid(which="minor", color="white", linewidth=1.5)
    else:
        apart = 16 if keys <= 320 else 64  # places count from 1, memory backwards from -1
        across = [p for p in range(-view.past, keys - view.past + 1) if p == 1 or (p and p % apart == 0)]
        axes.set_xticks([p + view.past - (p > 0) for p in across], [str(p) for p in across])
        down = [1, *range(apart, readers + 1, apart)]
        axes.set_yticks([p - 1 for p in down], [str(p) for p in down])
        axes.set_ylabel("slot that reads" if panel.stream == "content" else "prediction", fontsize=8)
        axes.tick_params(labelsize=7)
    if view.past:
        axes.axvline(view.past - 0.5, color="black", linewidth=1.0)
    axes.tick_params(which="both", length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    note = f"{panel.stream} stream: {panel.count()} pairs"
    if view.past:
        note += f" + {panel.count(memory=True)} with memory"
    axes.set_xlabel(note, fontsize=9)
