"""Draw docs/images/grid.png: what the streams of each objective may see, by the real parts on eight tokens.

./dev python docs/draw_grid.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import torch
from torch import Tensor

from anyorder.core import Draws, Plan, Slots, TokenBatch, Visibility, Vocab, find

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

LENGTH = 8
ORDER = (2, 6, 0, 4, 7, 3, 1, 5)
VOCAB = Vocab(size=40)
INK, PAPER, TARGET = "#1f4e79", "#eef1f5", "#d95f02"


def cells() -> dict[str, tuple[Plan, str]]:
    """Objectives by title: a plan on eight tokens, and the mask builder that reads it."""
    batch = TokenBatch.of(torch.zeros(1, LENGTH, dtype=torch.long) + 9)
    sample = Draws(0, rows=1)
    two = torch.zeros(1, LENGTH, dtype=torch.bool)
    two[0, [3, 5]] = True
    return {
        "Causal LM": (find("order", "left_to_right")().sample(batch, generator=sample), "shift"),
        "Prefix LM": (
            Plan.of((torch.arange(LENGTH) - 2).clamp(min=0)[None], (torch.arange(LENGTH) > 2)[None]),
            "shift",
        ),
        "Masked LM (DAE)": (Plan.of(two.long(), two), "in_place"),
        "XLNet: context given": (Plan.of(torch.tensor([[0, 0, 0, 2, 0, 1, 0, 0]]), two), "two_stream"),
        "XLNet: every token": (Plan.from_order(torch.tensor([ORDER])), "two_stream"),
        "New: masked targets, query stream": (Plan.of(two.long(), two), "two_stream"),
    }


def paint(axes: Axes, readers: Slots, keys: Slots, targets: list[int], *, title: str) -> None:
    seen: Tensor = Visibility.of(readers, keys).dense()[0]
    for row in range(readers.count):
        for column in range(keys.count):
            color = INK if seen[row, column] else PAPER
            axes.add_patch(plt.Rectangle((column, row), 0.92, 0.92, color=color))
    places = readers.position[0].tolist()
    axes.set(xlim=(0, keys.count), ylim=(readers.count, 0), aspect="equal", xticks=[], yticks=[])
    axes.set_title(title, fontsize=8, loc="left")
    axes.set_anchor("N")
    for row, place in enumerate(places):
        axes.text(
            -0.25,
            row + 0.5,
            str(place + 1),
            ha="right",
            va="center",
            fontsize=7,
            color=TARGET if place in targets else "black",
        )
    for spine in axes.spines.values():
        spine.set_visible(False)


def main() -> None:
    found = cells()
    figure, grid = plt.subplots(2, len(found), figsize=(2.15 * len(found), 4.4))
    batch = TokenBatch.of(torch.zeros(1, LENGTH, dtype=torch.long) + 9)
    for column, (name, (plan, masks)) in enumerate(found.items()):
        count = int(plan.target.sum())
        streams = find("masks", masks)().build(batch, plan, vocab=VOCAB, num_targets=count, generator=Draws(0, rows=1))
        targets = plan.target[0].nonzero().flatten().tolist()
        paint(grid[0, column], streams.content, streams.content, targets, title="content stream")
        grid[0, column].text(0, -1.7, name, fontsize=9, fontweight="bold")
        if streams.query is None:
            grid[1, column].axis("off")
            said = "no query stream:\nread from the content"
            grid[1, column].text(0.02, 0.9, said, fontsize=8, transform=grid[1, column].transAxes, va="top")
        else:
            paint(grid[1, column], streams.query, streams.content, targets, title="query stream")
    figure.text(
        0.01, 0.015, "A row is a reader, a column what it may attend to (blue). Orange numbers are targets.", fontsize=8
    )
    figure.tight_layout(rect=(0, 0.04, 1, 0.97))
    out = Path(__file__).parent / "images" / "grid.png"
    figure.savefig(out, dpi=130)
    print(out)


if __name__ == "__main__":
    main()
