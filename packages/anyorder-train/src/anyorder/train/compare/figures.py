"""Pictures of a comparison."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..atomic import write_bytes
from .results import Results
from .statistics import Estimate
from .verdicts import MANY, title_of

__all__ = ["Picture", "draw_losses", "draw_spans", "draw_yardsticks", "has_lengths", "pictures"]

# Okabe and Ito's colours, told apart under the common kinds of colour blindness, with a marker each besides.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = ("o", "s", "D", "^", "v", "P", "X")
_STYLE: dict[Any, Any] = {
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "0.55",
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.grid": True,
    "grid.color": "0.92",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "svg.hashsalt": "anyorder",
}


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A figure as PNG and SVG.

    Attributes:
        name: of the files, without ending.
        caption: what it shows, in plain words.
    """

    name: str
    caption: str
    png: bytes
    svg: bytes

    def save(self, folder: Path) -> list[Path]:
        files = {folder / f"{self.name}.png": self.png, folder / f"{self.name}.svg": self.svg}
        for path, data in files.items():
            write_bytes(path, data)
        return list(files)


def pictures(results: Results) -> dict[str, Picture]:
    """Every picture that the results allow, by name."""
    noise = (
        "Bars are 95 % intervals over seeds."
        if len(results.seeds) > 1
        else "One seed: bars are 95 % intervals over held-out windows."
    )
    plans: dict[str, tuple[Callable[[Results], Figure | None], str]] = {
        "yardsticks": (
            draw_yardsticks,
            "Bits per token on each yardstick; further left is better. Axes are cut to the data and differ. "
            f"{noise}{' Small dots are seeds.' if len(results.seeds) > 1 else ''}",
        ),
        "spans": (
            draw_spans,
            "Bits per token of a hidden span, by its length; lower is better. "
            + (noise if len(results.recipes) <= MANY else "The table has the intervals."),
        ),
        "losses": (
            draw_losses,
            "Each objective's own training loss (running mean; thin lines are seeds) and, dashed, its loss on held-out "
            "text. What is predicted from what differs between objectives, so these heights must not be compared "
            "across panels; that is what the yardsticks are for.",
        ),
    }
    made = {}
    for name, (draw, caption) in plans.items():
        with matplotlib.rc_context(_STYLE):
            figure = draw(results)
            if figure is not None:
                made[name] = Picture(name=name, caption=caption, png=_render(figure, "png"), svg=_render(figure, "svg"))
    return made


def draw_yardsticks(results: Results) -> Figure | None:
    """A panel a yardstick, a line a recipe."""
    names = [name for name in results.yardsticks if results.ranking(name)]
    if not names:
        return None
    columns = min(2, len(names))
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(4.6 * columns, rows * (0.75 + 0.36 * len(results.recipes))), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).flatten()
    for axes in panels[len(names) :]:
        axes.set_axis_off()
    for axes, name in zip(panels, names, strict=False):
        _panel(axes, results, name)
    return figure


def _panel(axes: Axes, results: Results, yardstick: str) -> None:
    for line, recipe in enumerate(results.recipes):
        found = results.score(recipe, yardstick)
        if found is None:
            axes.text(0.02, line, "undefined", color="0.55", va="center", transform=axes.get_yaxis_transform())
            continue
        if len(results.seeds) > 1:
            seeds = results.values(recipe, yardstick)
            axes.plot(seeds, [line] * len(seeds), ".", color=_colour(results, recipe), alpha=0.35, markersize=5)
        axes.errorbar(found.mean, line, xerr=_error(found), **_mark(results, recipe), capsize=3)
        axes.annotate(
            f"{found.mean:.2f}",
            (found.mean, line),
            xytext=(0, 6),
            textcoords="offset points",
            ha="center",
            fontsize=8.5,
        )
    axes.set_yticks(range(len(results.recipes)), results.recipes)
    axes.set_ylim(len(results.recipes) - 0.5, -0.7)
    axes.margins(x=0.12)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.grid(axis="y", visible=False)
    axes.set(title=title_of(yardstick), xlabel="bits per token")


def has_lengths(results: Results, yardstick: str) -> bool:
    """Whether the parts of a yardstick are span lengths."""
    parts = results.parts(yardstick)
    return len(parts) > 1 and all(part.isdigit() for part in parts)


def draw_spans(results: Results) -> Figure | None:
    """Bits per token by span length, for yardsticks whose parts are lengths."""
    name = next((name for name in results.yardsticks if has_lengths(results, name)), None)
    if name is None:
        return None
    count = len(results.recipes)
    figure = Figure(figsize=(7.0, max(3.5, 0.28 * count)), layout="constrained")
    axes = figure.subplots()
    lengths = [int(part) for part in results.parts(name)]
    step = 0.05 if count <= MANY else 0.0  # with many models, intervals would hide the lines
    for number, recipe in enumerate(results.recipes):
        found = [results.score(recipe, name, part=str(length)) for length in lengths]
        shown = [(length, one) for length, one in zip(lengths, found, strict=True) if one is not None]
        if not shown:
            continue
        aside = step * (number - (count - 1) / 2)  # so that intervals do not cover each other
        axes.errorbar(
            [length + aside for length, _ in shown],
            [one.mean for _, one in shown],
            yerr=[[_error(one)[side][0] for _, one in shown] for side in (0, 1)] if count <= MANY else None,
            **{**_mark(results, recipe), "linestyle": "-"},
            capsize=2,
            label=recipe,
        )
    axes.set_xticks(lengths)
    axes.set(title=title_of(name), xlabel="hidden tokens in the span", ylabel="bits per token")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def draw_losses(results: Results) -> Figure | None:
    """A panel a recipe: its own loss."""
    if not any(cell.losses for cell in results.cells):
        return None
    count = len(results.recipes)
    columns = min(3 if count <= 9 else 4, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(3.3 * columns, 2.5 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).flatten()
    for axes in panels[count:]:
        axes.set_axis_off()
    for axes, recipe in zip(panels, results.recipes, strict=False):
        colour = _colour(results, recipe)
        for cell in results.of(recipe):
            if cell.losses:
                steps, losses = zip(*cell.losses, strict=True)
                axes.plot(steps, _running_mean(losses), color=colour, linewidth=1.2, alpha=0.75)
            if cell.held_out:
                axes.plot(*zip(*cell.held_out, strict=True), "--", color="0.25", marker=".", linewidth=0.9)
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.set(title=recipe, xlabel="step", ylabel="own loss (nats a target)")
    return figure


def _running_mean(values: tuple[float, ...]) -> list[float]:
    """Exponential mean, corrected for its start."""
    rate = min(1.0, 20 / len(values))
    mean = weight = 0.0
    means = []
    for value in values:
        mean += rate * (value - mean)
        weight += rate * (1 - weight)
        means.append(mean / weight)
    return means


def _colour(results: Results, recipe: str) -> str:
    return _COLOURS[results.recipes.index(recipe) % len(_COLOURS)]


def _mark(results: Results, recipe: str) -> dict[str, Any]:
    number = results.recipes.index(recipe)
    marker = _MARKERS[(number + number // len(_COLOURS)) % len(_MARKERS)]  # no two of 49 look the same
    return {
        "color": _colour(results, recipe),
        "marker": marker,
        "markersize": 6,
        "linestyle": "none",
        "elinewidth": 1.4,
    }


def _error(found: Estimate) -> list[list[float]]:
    low = found.mean if found.low is None else found.low
    high = found.mean if found.high is None else found.high
    return [[found.mean - low], [high - found.mean]]


def _render(figure: Figure, form: str) -> bytes:
    buffer = io.BytesIO()
    # No date inside: the same results give the same bytes.
    metadata: Mapping[str, str | None] = {"Date": None} if form == "svg" else {"Software": None}
    figure.savefig(buffer, format=form, dpi=150, metadata=metadata)
    return buffer.getvalue()
