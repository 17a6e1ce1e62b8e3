"""What each slot of a segment may see, as labelled tables, and as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import torch
from jaxtyping import Bool
from torch import Tensor

from anyorder.core import TARGETS, MemoryState, Plan, Slots, Streams, TokenBatch, Visibility, Vocab

__all__ = ["Cell", "Panel", "View"]

_WIDEST = 40  # keys that still make a table of characters


class Cell(IntEnum):
    """What one reader may know of one key."""

    HIDDEN = 0
    MEMORY = 1
    GIVEN = 2
    EARLIER = 3
    ITSELF = 4


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Readers of one stream against all keys.

    Attributes:
        stream: ``content`` or ``query``.
        readers: label of each reader.
        cells: a ``Cell`` for each reader and key.
    """

    stream: str
    readers: list[str]
    cells: list[list[Cell]]

    def count(self, *, memory: bool = False) -> int:
        """Permitted pairs inside the segment, or of readers with memory."""
        hidden = (Cell.HIDDEN,) if memory else (Cell.HIDDEN, Cell.MEMORY)
        kept = (Cell.MEMORY,) if memory else tuple(cell for cell in Cell if cell not in hidden)
        return sum(cell in kept for row in self.cells for cell in row)


@dataclass(frozen=True, kw_only=True)
class View:
    """One row of a batch as its streams see it.

    Attributes:
        title: what is shown.
        order: the targets in the order in which they are predicted.
        keys: label of each key, memory first.
        past: how many of the keys are memory.
        panels: the content stream, and the query stream where there is one.
    """

    title: str
    order: str
    keys: list[str]
    past: int
    panels: list[Panel]

    @classmethod
    def of(
        cls,
        streams: Streams,
        *,
        batch: TokenBatch,
        plan: Plan,
        tokens: Sequence[str],
        vocab: Vocab,
        memory: int = 0,
        title: str = "",
    ) -> View:
        """Look at row 0 of a batch.

        Args:
            streams: what a mask builder made.
            tokens: the row's tokens as text.
            vocab: to tell a mask from a token.
            memory: how many earlier tokens are remembered.
        """
        content = streams.content
        state = MemoryState(
            layers=(),
            position=torch.arange(-memory, 0).expand(batch.rows, -1),
            doc=batch.doc[:, :1].expand(-1, memory),
        )
        keys = state.before(content)
        labels = [f"m{place}" for place in range(-memory, 0)] + _slot_labels(content, batch, tokens, vocab)
        read = streams.readouts[TARGETS]
        place = content.position[0].clamp(0, batch.length - 1)
        tells = plan.target[0, place] & (content.ids[0] == batch.ids[0, place])  # [K]: slots that tell a target's token
        known = torch.cat([torch.zeros(memory, dtype=torch.bool), tells])
        panels = [_panel("content", content, keys, _reader_labels(content, labels[memory:]), known)]
        if streams.query is not None:
            chosen = (read.weight[0] > 0).nonzero().flatten()
            query = streams.query.map(lambda part: part[:, chosen] if part.dim() == 2 else part)
            names = [tokens[place] for place in query.position[0].tolist()]
            panels.append(_panel("query", query, keys, _reader_labels(query, names), known))
        ranked = sorted(plan.target[0].nonzero().flatten().tolist(), key=lambda place: int(plan.time[0, place]))
        times = [int(plan.time[0, place]) for place in ranked]
        at_once = len(set(times)) == 1 and len(times) > 1
        arrow = ", " if at_once else " → "
        order = arrow.join(f"{tokens[place]} ({place + 1})" for place in ranked)
        if at_once:
            order += ", all at once"
        return cls(title=title, order=order, keys=labels, past=memory, panels=panels)

    def summary(self) -> list[str]:
        """The order, and the permitted pairs of each stream."""
        lines = [f"predicted: {self.order}"]
        for panel in self.panels:
            line = f"{panel.stream} stream: {panel.count()} permitted pairs"
            if self.past:
                line += f", and {panel.count(memory=True)} with memory"
            lines.append(line)
        return lines

    def text(self, *, plain: bool = False) -> str:
        """The tables in characters, ``plain`` for ASCII alone; the summary only where they would be too wide."""
        lines = self.summary()
        if len(self.keys) > _WIDEST:
            return "\n".join([*lines, f"({len(self.keys)} keys are too many for a table of text; see the picture)"])
        marks = dict(zip(Cell, ".MGE*" if plain else "·▒□■●", strict=True))
        used = {cell for panel in self.panels for row in panel.cells for cell in row}
        widths = [max(3, len(key)) for key in self.keys]
        for panel in self.panels:
            left = max([len(label) for label in panel.readers], default=0)
            lines += ["", f"{panel.stream} stream: who reads (down), what it may see (across)"]
            lines.append(" " * left + "  " + " ".join(f"{k:^{w}}" for k, w in zip(self.keys, widths, strict=True)))
            for label, row in zip(panel.readers, panel.cells, strict=True):
                cells = " ".join(f"{marks[cell]:^{width}}" for cell, width in zip(row, widths, strict=True))
                lines.append(f"{label:>{left}}  {cells}".rstrip())
        lines += ["", "   ".join(f"{marks[cell]} {cell.name.lower()}" for cell in Cell if cell in used)]
        return "\n".join(lines)


def _panel(stream: str, readers: Slots, keys: Slots, labels: list[str], predicted: Bool[Tensor, " K"]) -> Panel:
    seen = Visibility.of(readers, keys).dense()[0]  # [Q, K]
    past = keys.position[0] < 0
    same = readers.position[0][:, None] == keys.position[0][None]
    cells = torch.full(seen.shape, int(Cell.EARLIER))
    cells[:, ~predicted] = int(Cell.GIVEN)
    cells[:, past] = int(Cell.MEMORY)
    cells[same] = int(Cell.ITSELF)
    cells[~seen] = int(Cell.HIDDEN)
    return Panel(stream=stream, readers=labels, cells=[[Cell(cell) for cell in row] for row in cells.tolist()])


def _slot_labels(content: Slots, batch: TokenBatch, tokens: Sequence[str], vocab: Vocab) -> list[str]:
    labels = []
    for slot, place in zip(content.ids[0].tolist(), content.position[0].tolist(), strict=True):
        inside = 0 <= place < batch.length and slot == int(batch.ids[0, place])
        labels.append(tokens[place] if inside else "[MASK]" if slot == vocab.mask else "[other]")
    return labels


def _reader_labels(slots: Slots, names: Sequence[str]) -> list[str]:
    return [f"{name}  t={time}" for name, time in zip(names, slots.time[0].tolist(), strict=True)]
