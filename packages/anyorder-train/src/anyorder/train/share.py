"""One process's share of a step: its rows, cut into slices, with streams ready to compute."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool
from torch import Tensor

from anyorder.core import DataError, MemoryState, Slots, Streams, Visibility, map_tensors

from .evaluate import RowSource, take_rows
from .objective import Objective

__all__ = ["Share", "Slice", "blind_predictions", "join_memory", "prepare_share", "slice_memory"]


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Rows that are computed together: what the backbone needs, and which rows start anew."""

    streams: Streams
    fresh: Bool[Tensor, " B"]


@dataclass(frozen=True, kw_only=True)
class Share:
    """A process's slices of a step, on the CPU, and what is known of them before anything is computed.

    Attributes:
        slices: in row order.
        weights: weight behind each head's loss.
        tokens: new tokens of the corpus: of each segment the first ``stride``, since the next one reads the others
            again. Padding is none of them.
        targets: predictions that count, over all heads.
    """

    slices: tuple[Slice, ...]
    weights: Tensor
    tokens: int
    targets: int


def prepare_share(objective: Objective, data: RowSource, *, step: int, seed: int, rows: Sequence[range]) -> Share:
    """Sample orders and build streams for some rows of a step.

    Every draw is keyed by (seed, step, global row), so that neither the number of slices nor of processes changes it.

    Args:
        rows: the rows of each slice.

    Raises:
        DataError: the batch has too few rows, or a token that the vocabulary lacks.
    """
    batch = data.batch(step)
    if batch.rows < rows[-1].stop:
        raise DataError(
            f"the data give {batch.rows} rows a step and row {rows[-1].stop} is wanted: see train.batch_size"
        )
    stride = getattr(data, "stride", None)
    slices, weights, tokens, targets = [], [], 0, 0
    for part in rows:
        own = take_rows(batch, part.start, part.stop)
        own.check(vocab_size=objective.vocab.size)
        streams = objective.prepare(own, seed=seed, step=step, rows=torch.tensor(part))
        slices.append(Slice(streams=streams, fresh=own.fresh))
        sums = objective.weight_sums(streams)
        weights.append(torch.stack([sums[name].float() for name in objective.heads]))
        tokens += int((~own.padding[:, :stride]).sum())
        targets += sum(int((streams.readouts[name].weight > 0).sum()) for name in objective.heads)
    return Share(slices=tuple(slices), weights=torch.stack(weights).sum(0), tokens=tokens, targets=targets)


def blind_predictions(streams: Streams, memory: MemoryState | None, *, heads: Iterable[str]) -> int:
    """How many of the heads' predictions are made by a reader that sees nothing: only biases can answer there."""
    count = 0
    content = streams.content
    keys = content if memory is None else memory.before(content)
    for readout in (streams.readouts[name] for name in heads):
        readers: Slots | None = streams.query if readout.stream == "query" else content
        assert readers is not None
        sees = Visibility.of(readers, keys).dense().any(dim=-1).gather(1, readout.index)
        count += int((~sees & (readout.weight > 0)).sum())
    return count


def join_memory(parts: Sequence[MemoryState | None]) -> MemoryState | None:
    """The memory of all slices as one, in row order."""
    first = parts[0]
    if first is None:
        return None
    states = [part for part in parts if part is not None]

    def join(*tensors: Tensor) -> Tensor:
        return torch.cat(tensors)

    return replace(
        first,
        layers=tuple(join(*layer) for layer in zip(*(state.layers for state in states), strict=True)),
        position=join(*(state.position for state in states)),
        doc=join(*(state.doc for state in states)),
        segment=None
        if first.segment is None
        else join(*(state.segment for state in states if state.segment is not None)),
    )


def slice_memory(memory: MemoryState, rows: range) -> MemoryState:
    """The memory of some rows, in storage of its own."""
    taken: MemoryState = map_tensors(memory, lambda tensor: tensor[rows.start : rows.stop].clone())
    return taken
