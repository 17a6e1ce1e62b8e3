"""What every memory must keep."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..protocols import Memory
from ..slots import Slots
from ..state import MemoryState
from .reference import ReferenceMemory


class MemoryContract:
    """Subclass as ``TestMyMemory``, override ``make`` and set ``mem_len`` to the length it was made with."""

    mem_len: int
    lengths: Sequence[int] = (1, 7, 16)
    width = 3

    def make(self) -> Memory:
        """The memory under test."""
        raise NotImplementedError

    def empty(self, rows: int, *, layers: int = 2) -> MemoryState:
        return self.make().empty(rows=rows, layers=layers, width=self.width, device="cpu", dtype=torch.float64)

    def history(self, rows: int, length: int, *, segments: int = 5) -> list[MemoryState]:
        """The states after each of some segments, whose layer inputs want a gradient."""
        memory, state, states = self.make(), self.empty(rows), []
        for number in range(segments):
            content, inputs = _segment(rows, length, number, width=self.width)
            state = memory.extend(state, inputs, content=content)
            states.append(state)
        return states

    def test_is_a_memory(self) -> None:
        memory = self.make()
        assert isinstance(memory, Memory)
        assert memory.reuse_len is None or memory.reuse_len > 0

    def test_empty_remembers_nothing(self) -> None:
        for rows in (1, 4):
            state = self.empty(rows)
            assert len(state.layers) == 2
            assert state.length <= self.mem_len
            _check(state, rows=rows, width=self.width)
            assert not any(bool(layer.any()) for layer in state.layers)

    def test_states_are_consistent_and_never_too_long(self) -> None:
        for rows in (1, 4):
            for length in self.lengths:
                for state in self.history(rows, length):
                    assert state.length <= self.mem_len, f"{state.length} slots, where {self.mem_len} are allowed"
                    _check(state, rows=rows, width=self.width)

    def test_states_are_detached(self) -> None:
        for state in self.history(2, max(self.lengths)):
            assert not any(layer.requires_grad for layer in state.layers)

    def test_keeps_the_newest_tokens(self) -> None:
        reuse_len = self.make().reuse_len
        for length in self.lengths:
            memory = ReferenceMemory(mem_len=self.mem_len, reuse_len=reuse_len)
            truth = memory.empty(rows=2, layers=2, width=self.width, device="cpu", dtype=torch.float64)
            for number, state in enumerate(self.history(2, length)):
                content, inputs = _segment(2, length, number, width=self.width)
                truth = memory.extend(truth, inputs, content=content)
                kept = min(truth.length, state.length)
                assert kept == truth.length, f"length {length}: {kept} tokens kept of {truth.length}"
                for ours, theirs in zip(state.layers, truth.layers, strict=True):
                    assert torch.equal(ours[:, state.length - kept :], theirs), f"length {length}"
                assert torch.equal(state.doc[:, state.length - kept :], truth.doc), f"length {length}"

    def test_dropped_rows_are_forgotten_and_others_not(self) -> None:
        state = self.history(3, max(self.lengths))[-1]
        dropped = state.drop(torch.tensor([False, True, False]))
        assert bool((dropped.doc[1] == -1).all())
        for before, after in zip(state.layers, dropped.layers, strict=True):
            assert not after[1].any()
            assert torch.equal(before[[0, 2]], after[[0, 2]])
        assert torch.equal(state.doc[[0, 2]], dropped.doc[[0, 2]])

    def test_memory_takes_no_part_in_a_later_gradient(self) -> None:
        content, inputs = _segment(2, max(self.lengths), 0, width=self.width)
        state = self.make().extend(self.empty(2), inputs, content=content)
        total = sum((layer.sum() for layer in state.layers), torch.zeros((), dtype=torch.float64))
        assert not total.requires_grad


def _segment(rows: int, length: int, number: int, *, width: int) -> tuple[Slots, tuple[torch.Tensor, ...]]:
    position = torch.arange(length).expand(rows, -1)
    zero = torch.zeros_like(position)
    content = Slots(
        ids=zero,
        position=position,
        birth=zero,
        time=zero,
        doc=zero + number // 2,
        low=0,
        high=length,
        contiguous=True,
    )
    draw = torch.Generator().manual_seed(number)
    inputs = tuple(
        torch.randn(rows, length, width, generator=draw, dtype=torch.float64).requires_grad_() for _ in range(2)
    )
    return content, inputs


def _check(state: MemoryState, *, rows: int, width: int) -> None:
    assert state.position.shape == state.doc.shape == (rows, state.length)
    for layer in state.layers:
        assert layer.shape == (rows, state.length, width)
    assert not state.length or int(state.position.max()) < 0, "memory must lie before the segment"
    if state.contiguous:
        run = torch.arange(-state.length, 0).expand(rows, -1)
        assert torch.equal(state.position, run), "the contiguous promise is broken"
