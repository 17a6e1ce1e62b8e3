"""What every position bias must keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..bias import ScoreBias
from ..protocols import PositionBias
from ..slots import Slots
from ..state import MemoryState


class PositionBiasContract:
    """Subclass as ``TestMyBias`` and override ``make``; parameters are filled with noise before each test.

    Attributes:
        relative: scores depend on distances alone, so that moving all positions by the same amount changes nothing.
    """

    lengths: Sequence[int] = (1, 2, 7, 16)
    memories: Sequence[int] = (0, 3)
    relative = True
    width = 12
    heads = 2
    head_dim = 6

    def make(self) -> PositionBias:
        """The bias under test, for ``width``, ``heads`` and ``head_dim``."""
        raise NotImplementedError

    def distances(self, readers: Slots, keys: Slots) -> Float[Tensor, "G N D"] | None:
        """What the model hands to every layer: encoded distances, from the greatest down.

        Distances run from ``readers.high - keys.low`` to ``readers.low - keys.high + 1``. The second table, there if
        rows have directions, is of the distances with the other sign.
        """
        distance = torch.arange(readers.high - keys.low, readers.low - keys.high, -1, dtype=torch.float64)
        angle = distance[:, None] * 0.7 ** torch.arange(self.width // 2)
        forwards = torch.cat([angle.sin(), angle.cos()], dim=1)
        if readers.direction is None:
            return forwards[None]
        return torch.stack([forwards, torch.cat([-angle.sin(), angle.cos()], dim=1)])

    def cases(self) -> Iterator[tuple[str, Slots, Slots, ScoreBias]]:
        for length in self.lengths:
            for memory in self.memories:
                for some in (False, True):
                    for directed in (False, True):
                        readers, keys = self.slots(length, memory, some=some, directed=directed)
                        bias = self.call(readers, keys)
                        if bias is not None:
                            yield f"length {length}, memory {memory}, {some=}, {directed=}", readers, keys, bias

    def slots(self, length: int, memory: int, *, some: bool, directed: bool) -> tuple[Slots, Slots]:
        """Readers, all of the tokens or every second, and keys."""
        rows = 2
        position = torch.arange(length).expand(rows, -1)
        zero = torch.zeros_like(position)
        content = Slots(
            ids=zero,
            position=position,
            birth=zero,
            time=zero,
            doc=zero,
            segment=position % 3 // 2,
            direction=torch.tensor([1, -1]) if directed else None,
            low=0,
            high=length,
            contiguous=True,
        )
        past = MemoryState(
            layers=(),
            position=torch.arange(-memory, 0).expand(rows, -1),
            doc=torch.zeros(rows, memory, dtype=torch.long),
        )
        keys = past.before(content)
        if not some:
            return content, keys
        return replace(_take(content, slice(None, None, 2)), contiguous=False), keys

    def query(self, count: int) -> Float[Tensor, "B H Q d"]:
        draw = torch.Generator().manual_seed(3)
        return torch.randn(2, self.heads, count, self.head_dim, generator=draw, dtype=torch.float64)

    def call(self, readers: Slots, keys: Slots, *, query: Tensor | None = None) -> ScoreBias | None:
        bias = self.make()
        draw = torch.Generator().manual_seed(3)
        if isinstance(bias, nn.Module):
            bias.double()
            for parameter in bias.parameters():
                with torch.no_grad():
                    parameter.copy_(torch.randn(parameter.shape, generator=draw, dtype=torch.float64))
        query = self.query(readers.count) if query is None else query
        return bias(query, readers=readers, keys=keys, distances=self.distances(readers, keys))

    def test_some_case_has_a_bias(self) -> None:
        assert isinstance(self.make(), PositionBias)
        assert any(True for _ in self.cases())

    def test_dense_is_the_score_mod_at_every_entry(self) -> None:
        for name, readers, keys, bias in self.cases():
            shape = (readers.position.shape[0], self.heads, readers.count, keys.count)
            dense = bias.dense().expand(shape)
            places = torch.meshgrid(*(torch.arange(size) for size in shape), indexing="ij")
            assert torch.equal(dense, bias.score_mod()(*places)), name

    def test_contiguous_slots_take_no_other_values(self) -> None:
        for name, readers, keys, bias in self.cases():
            slow = self.call(replace(readers, contiguous=False), replace(keys, contiguous=False))
            assert slow is not None, name
            assert torch.equal(*torch.broadcast_tensors(bias.dense(), slow.dense())), name

    def test_chosen_readers_get_the_rows_of_all_readers(self) -> None:
        for length in self.lengths:
            everyone, keys = self.slots(length, 3, some=False, directed=True)
            some, _ = self.slots(length, 3, some=True, directed=True)
            query = self.query(length)
            whole, part = self.call(everyone, keys, query=query), self.call(some, keys, query=query[:, :, ::2])
            if whole is not None and part is not None:
                shape = (2, self.heads, length, keys.count)
                rows = whole.dense().expand(shape)[:, :, ::2]
                assert torch.allclose(rows, part.dense().expand_as(rows), atol=1e-12), f"length {length}"

    def test_bounds_decide_nothing(self) -> None:
        for length in self.lengths:
            readers, keys = self.slots(length, 3, some=True, directed=True)
            tight = self.call(readers, keys)
            loose = self.call(replace(readers, low=readers.low - 2, high=readers.high + 3), keys)
            if tight is not None and loose is not None:
                assert torch.allclose(tight.dense(), loose.dense(), atol=1e-12), f"length {length}"

    def test_only_distances_count(self) -> None:
        if not self.relative:
            return
        for name, readers, keys, bias in self.cases():
            far = self.call(_moved(readers, by=11), _moved(keys, by=11))
            assert far is not None, name
            assert torch.allclose(bias.dense(), far.dense(), atol=1e-12), name

    def test_a_backward_row_has_distances_of_the_other_sign(self) -> None:
        for length in self.lengths:
            readers, keys = self.slots(length, 3, some=True, directed=True)
            bias = self.call(readers, keys)
            mirrored = self.call(_mirrored(readers), _mirrored(keys))
            if bias is None or mirrored is None:
                continue
            shape = (2, self.heads, readers.count, keys.count)
            one, other = (found.dense().expand(shape)[1] for found in (bias, mirrored))
            assert torch.allclose(one, other, atol=1e-12), f"length {length}"


def _take(slots: Slots, places: slice) -> Slots:
    return slots.map(lambda tensor: tensor[:, places] if tensor.dim() == 2 else tensor)


def _moved(slots: Slots, *, by: int) -> Slots:
    return replace(slots, position=slots.position + by, low=slots.low + by, high=slots.high + by)


def _mirrored(slots: Slots) -> Slots:
    """The same places in the text, told by positions of the other sign and the other direction."""
    assert slots.direction is not None
    return replace(
        slots,
        position=-slots.position,
        direction=-slots.direction,
        low=1 - slots.high,
        high=1 - slots.low,
        contiguous=False,
    )
