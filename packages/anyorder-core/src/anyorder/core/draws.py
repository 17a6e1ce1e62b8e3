"""Randomness keyed by (seed, step, row): the same draws for a row whatever batch, rank or device it is in."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15, as int64: the increment of splitmix64
_MIX_1 = -4658895280553007687  # 0xBF58476D1CE4E5B9
_MIX_2 = -7723592293110705685  # 0x94D049BB133111EB
_WORD = 1 << 64


def _shift_right(value: Tensor, bits: int) -> Tensor:
    return (value >> bits) & ((1 << (64 - bits)) - 1)  # logical, where >> of int64 is arithmetic


def _mix(value: Tensor) -> Tensor:
    """The finaliser of splitmix64 (Steele, Lea and Flood 2014): a bijection whose every bit depends on every bit."""
    value = (value ^ _shift_right(value, 30)) * _MIX_1
    value = (value ^ _shift_right(value, 27)) * _MIX_2
    return value ^ _shift_right(value, 31)


def _mix_int(value: int) -> int:
    """``_mix`` of one number, as an unsigned int: a dozen tensor operations fewer a number."""
    value %= _WORD
    value = (value ^ (value >> 30)) * _MIX_1 % _WORD
    value = (value ^ (value >> 27)) * _MIX_2 % _WORD
    return value ^ (value >> 31)


def _as_int64(value: int) -> int:
    value %= _WORD
    return value - _WORD if value >= _WORD // 2 else value


class Draws:
    """A counter-based generator: one stream of random numbers a row.

    Every call advances a counter common to all rows, so two calls never repeat each other, and a row's numbers depend
    on its own key and the calls made, never on its neighbours. Integer arithmetic alone decides, so CPU and GPU agree
    to the bit. Not for cryptography.

    Args:
        seed: the run's seed.
        step: the step, so that the only state to save for a resumed run is one integer.
        rows: global row numbers; an int ``n`` means rows ``0`` to ``n - 1``.
        purpose: separates independent uses of one key (``"order"``, ``"corruption"``).
    """

    def __init__(
        self,
        seed: int,
        step: int = 0,
        *,
        rows: int | Sequence[int] | Tensor,
        purpose: str = "",
        device: torch.device | str = "cpu",
    ) -> None:
        numbers = torch.arange(rows) if isinstance(rows, int) else torch.as_tensor(rows)
        key = 0
        for part in (seed, step, *purpose.encode()):
            key = _mix_int((key ^ (part % _WORD)) + _GOLDEN)
        self._key: Int[Tensor, " B"] = _mix((_as_int64(key) ^ numbers.to(torch.int64)) + _GOLDEN).to(device)
        self._numbers: Int[Tensor, " B"] = numbers.to(device, torch.int64)
        self._step_key = _mix_int(key + _GOLDEN)
        self._calls = 0

    @property
    def rows(self) -> int:
        return self._key.shape[0]

    @property
    def device(self) -> torch.device:
        return self._key.device

    def bits(self, *shape: int) -> Int[Tensor, "B ..."]:
        """Uniform over all int64 values, ``[B, *shape]``."""
        self._calls += 1
        stream = _mix((self._key ^ _as_int64(self._calls * _GOLDEN)) + _GOLDEN)  # [B]
        size = 1
        for extent in shape:
            size *= extent
        counter = torch.arange(1, size + 1, device=self.device) * _GOLDEN
        return _mix(stream[:, None] + counter).view(self.rows, *shape)

    def rand(self, *shape: int) -> Float[Tensor, "B ..."]:
        """Uniform in [0, 1) with 24 bits, float32."""
        return _shift_right(self.bits(*shape), 40).to(torch.float32) * 2.0**-24

    def randint(self, high: int | Tensor, *shape: int) -> Int[Tensor, "B ..."]:
        """Uniform in ``{0 .. high - 1}``; ``high`` broadcasts against ``[B, *shape]`` and must be under 2**31."""
        return (_shift_right(self.bits(*shape), 32) * high) >> 32

    def bernoulli(self, probability: float | Tensor, *shape: int) -> Bool[Tensor, "B ..."]:
        return self.rand(*shape) < probability

    def categorical(self, probabilities: Sequence[float] | Tensor, *shape: int) -> Int[Tensor, "B ..."]:
        """Indices drawn with the given probabilities, which are normalised."""
        weights = torch.as_tensor(probabilities, dtype=torch.float64, device=self.device)
        edges = (weights.cumsum(0) / weights.sum()).to(torch.float32)
        return torch.bucketize(self.rand(*shape), edges[:-1], right=True)

    def permutation(self, length: int) -> Int[Tensor, "B L"]:
        """A uniform permutation of ``0 .. length - 1`` for each row."""
        return self.bits(length).argsort(dim=1)

    def shared(self) -> float:
        """One uniform number in [0, 1) with 24 bits, the same for every row of the step, on every rank."""
        return (self._step_bits() >> 40) * 2.0**-24

    def spread(self) -> Float[Tensor, " B"]:
        """Uniform in [0, 1) for each row, and evenly spread over neighbouring rows; float32.

        A number of the step plus the row's number times the golden ratio, modulo 1 (Weyl's sequence): any run of rows
        is nearly as even as a stratified draw, though no row needs to know how many there are.
        """
        start = _as_int64(self._step_bits())
        return _shift_right(start + self._numbers * _GOLDEN, 40).to(torch.float32) * 2.0**-24

    def torch(self) -> torch.Generator:
        """An ordinary generator of the whole batch, for code that wants one; rows are no longer independent."""
        self._calls += 1
        key = self._key.cpu()
        seed = _mix(key.sum() ^ _as_int64(self._calls * _GOLDEN))
        generator = torch.Generator(device=self.device)
        generator.manual_seed(int(seed) & ((1 << 63) - 1))
        return generator

    def _step_bits(self) -> int:
        """An unsigned number of 64 bits of the step, whatever its rows."""
        self._calls += 1
        return _mix_int(self._step_key + self._calls * _GOLDEN)
