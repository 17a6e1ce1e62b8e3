"""Exact leak audit of streams, without a model: which tokens can reach which prediction, by any path."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..batch import TokenBatch
from ..plan import Plan
from ..protocols import Memory
from ..slots import TARGETS, Slots, Streams
from ..state import MemoryState
from ..visibility import Visibility


@dataclass(frozen=True, kw_only=True)
class AuditedSegment:
    """One segment as a model would be given it.

    Attributes:
        plan: the plan that the streams were built from, after ``Plan.within_blocks``. Prediction ``p`` of the
            readout ``targets`` is of the row's ``p``-th target in natural order.
        tokens: which token of the text stands at each place. The same number in a row is the same token, read again.
    """

    batch: TokenBatch
    plan: Plan
    streams: Streams
    tokens: Int[Tensor, "B L"]

    @classmethod
    def of(cls, batch: TokenBatch, plan: Plan, streams: Streams, *, start: int = 0) -> AuditedSegment:
        """A segment whose rows all begin at token ``start`` of their text."""
        tokens = start + torch.arange(batch.length).expand(batch.rows, -1)
        return cls(batch=batch, plan=plan, streams=streams, tokens=tokens)


@dataclass(frozen=True, kw_only=True)
class Leak:
    """A target's token that reaches a prediction made at or before it in the order.

    Attributes:
        segment, row: where.
        position: place of the predicted target in its row.
        source: place of the token that reaches it: ``position`` itself, or a target that comes later in the order.
        path: slots from one that carries the token to the reader, such as ``("content 3", "content 5", "query 1")``;
            a path that begins in memory names the place there, such as ``"memory -4"``.
    """

    segment: int
    row: int
    position: int
    source: int
    path: tuple[str, ...]

    def __str__(self) -> str:
        what = "its own token" if self.source == self.position else f"the later target {self.source}"
        return (
            f"segment {self.segment}, row {self.row}: the prediction at {self.position} is reached by {what}: "
            + " -> ".join(self.path)
        )


def find_leaks(segments: Sequence[AuditedSegment], *, memory: Memory | None = None) -> list[Leak]:
    """Audit neighbouring segments in the order in which a model reads them.

    Works on the graph of what may attend to what, with any number of layers, so it does not depend on weights. What
    memory carries is found by giving the memory itself, as layer inputs, the set of tokens known to each slot.
    A slot carries a token where the input id is still the token's own. Predictions of weight 0 and those marked
    ``revealed`` are passed over.

    Raises:
        ValueError: the readout is not of the plan's targets in natural order.
    """
    if not segments:
        return []
    _, numbers = torch.unique(torch.stack([_padded(s, segments) for s in segments]), return_inverse=True)
    width = int(numbers.max()) + 1
    state = None
    if memory is not None:
        state = memory.empty(rows=segments[0].batch.rows, layers=1, width=width, device="cpu", dtype=torch.float32)
    leaks: list[Leak] = []
    for index, segment in enumerate(segments):
        if state is not None:
            state = state.drop(segment.batch.fresh)
        reach = _Reach.of(segment, tokens=numbers[index, :, : segment.batch.length], width=width, state=state)
        leaks += reach.leaks(segment, index)
        if state is not None and memory is not None:
            state = memory.extend(state, (reach.content.float(),), content=segment.streams.content)
    return leaks


def _padded(segment: AuditedSegment, segments: Sequence[AuditedSegment]) -> Int[Tensor, "B L"]:
    longest = max(other.batch.length for other in segments)
    filler = segment.tokens[:, -1:].expand(-1, longest - segment.batch.length)
    return torch.cat([segment.tokens, filler], dim=1)


@dataclass(frozen=True, kw_only=True)
class _Reach:
    """Which of ``N`` tokens each slot of one segment may know. ``own`` is what a slot's input alone tells."""

    tokens: Int[Tensor, "B L"]
    own: Bool[Tensor, "B K N"]
    content: Bool[Tensor, "B K N"]
    memory: Bool[Tensor, "B M N"]
    query: Bool[Tensor, "B Q N"] | None
    content_sees: Bool[Tensor, "B K M+K"]
    query_sees: Bool[Tensor, "B Q M+K"] | None
    memory_position: Int[Tensor, "B M"]

    @classmethod
    def of(
        cls, segment: AuditedSegment, *, tokens: Int[Tensor, "B L"], width: int, state: MemoryState | None
    ) -> _Reach:
        content, query = segment.streams.content, segment.streams.query
        keys = content if state is None else state.before(content)
        past = keys.count - content.count
        if state is None:
            memory = torch.zeros(segment.batch.rows, 0, width, dtype=torch.bool)
            memory_position = torch.zeros(segment.batch.rows, 0, dtype=torch.long)
        else:
            memory, memory_position = state.layers[0] > 0, state.position
        own = _own_tokens(content, segment.batch, tokens=tokens, width=width)
        sees = Visibility.of(content, keys).dense()
        reach = own | _any_product(sees[:, :, :past], memory)
        while True:  # one round a layer, until another layer adds nothing
            further = reach | _any_product(sees[:, :, past:], reach)
            if torch.equal(further, reach):
                break
            reach = further
        query_reach = query_sees = None
        if query is not None:
            query_sees = Visibility.of(query, keys).dense()
            known = torch.cat([memory, reach], dim=1)
            query_reach = _own_tokens(query, segment.batch, tokens=tokens, width=width)
            query_reach = query_reach | _any_product(query_sees, known)
        return cls(
            tokens=tokens,
            own=own,
            content=reach,
            memory=memory,
            query=query_reach,
            content_sees=sees,
            query_sees=query_sees,
            memory_position=memory_position,
        )

    def leaks(self, segment: AuditedSegment, number: int) -> list[Leak]:
        readout, plan, batch = segment.streams.readouts[TARGETS], segment.plan, segment.batch
        stream = self.content if readout.stream == "content" else self.query
        if stream is None:
            raise ValueError("the readout 'targets' reads a query stream, but there is none")
        target = _target_places(segment)  # [B, P]
        read = readout.weight != 0
        revealed = torch.zeros_like(read) if readout.revealed is None else readout.revealed
        shown = torch.zeros_like(plan.time).scatter_add_(1, target, revealed.to(plan.time.dtype)) > 0
        known = stream.gather(1, readout.index[:, :, None].expand(-1, -1, stream.shape[2]))  # [B, P, N]
        known = known.gather(2, self.tokens[:, None, :].expand(-1, known.shape[1], -1))  # [B, P, L]
        not_before = plan.time[:, None, :] >= plan.time.gather(1, target)[..., None]  # [B, P, L]
        later = not_before & (plan.target & ~shown)[:, None, :]
        itself = torch.arange(batch.length) == target[..., None]
        found = known & (later | itself) & (read & ~revealed)[..., None]
        leaks = []
        for row, prediction, source in found.nonzero().tolist():
            slot = int(readout.index[row, prediction])
            path = self._path(row, readout.stream, slot, token=int(self.tokens[row, source]))
            position = int(target[row, prediction])
            leaks.append(Leak(segment=number, row=row, position=position, source=source, path=path))
        return leaks

    def _path(self, row: int, stream: str, slot: int, *, token: int) -> tuple[str, ...]:
        """The shortest path from a slot that carries the token to the reader."""
        past = self.memory.shape[1]
        carries = torch.cat([self.memory[row, :, token], self.own[row, :, token]]).tolist()
        if stream == "content":
            first: list[tuple[int, tuple[str, ...]]] = [(past + slot, ())]
        else:
            assert self.query_sees is not None
            seen = self.query_sees[row, slot].nonzero().flatten().tolist()
            first = [(key, (f"query {slot}",)) for key in seen]
        waiting = deque(first)
        visited = {key for key, _ in first}
        while waiting:
            key, behind = waiting.popleft()
            name = f"memory {int(self.memory_position[row, key])}" if key < past else f"content {key - past}"
            path = (name, *behind)
            if carries[key]:
                return path
            if key < past:
                continue
            for other in self.content_sees[row, key - past].nonzero().flatten().tolist():
                if other not in visited:
                    visited.add(other)
                    waiting.append((other, path))
        return (f"{stream} {slot}",)  # the reader's own input


def _own_tokens(slots: Slots, batch: TokenBatch, *, tokens: Int[Tensor, "B L"], width: int) -> Bool[Tensor, "B N T"]:
    """Which token the input of each slot tells: that of its place, if the id there is still the token's."""
    inside = (slots.position >= 0) & (slots.position < batch.length)
    place = slots.position.clamp(0, batch.length - 1)
    carries = inside & (slots.doc >= 0) & (slots.ids == batch.ids.gather(1, place))
    own = torch.zeros(*slots.ids.shape, width, dtype=torch.bool)
    return own.scatter_(2, tokens.gather(1, place)[..., None], carries[..., None])


def _any_product(left: Bool[Tensor, "B Q K"], right: Bool[Tensor, "B K N"]) -> Bool[Tensor, "B Q N"]:
    counts: Float[Tensor, "B Q N"] = left.float() @ right.float()
    return counts > 0


def _target_places(segment: AuditedSegment) -> Int[Tensor, "B P"]:
    """Place of the target behind each prediction, 0 where there is none."""
    plan, batch, readout = segment.plan, segment.batch, segment.streams.readouts[TARGETS]
    read = readout.weight != 0
    places = torch.zeros_like(readout.index)
    for row in range(batch.rows):
        here = plan.target[row].nonzero().flatten()[: places.shape[1]]
        places[row, : len(here)] = here
        wrong = read[row] & (readout.labels[row] != batch.ids[row, places[row]])
        wrong[len(here) :] = read[row, len(here) :]
        if bool(wrong.any()):
            raise ValueError(
                f"row {row}: prediction {int(wrong.nonzero()[0])} of the readout 'targets' is not of the plan's "
                "targets in natural order, so it cannot be audited"
            )
    return places
