"""Keyed draws: known answers, a plain twin, uniformity, and independence of rows, calls and keys."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from anyorder.core import Draws

WORD = 1 << 64


def mix(value: int) -> int:
    """splitmix64's finaliser over Python integers (Steele, Lea and Flood 2014)."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) % WORD
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) % WORD
    return value ^ (value >> 31)


GOLDEN = 0x9E3779B97F4A7C15


def plain_bits(seed: int, step: int, row: int, purpose: str, *, call: int, index: int) -> int:
    key = 0
    for part in (seed, step, *purpose.encode(), row):
        key = mix(((key ^ (part % WORD)) + GOLDEN) % WORD)
    stream = mix(((key ^ (call * GOLDEN % WORD)) + GOLDEN) % WORD)
    return mix((stream + (index + 1) * GOLDEN) % WORD)


def test_the_mixer_is_splitmix64() -> None:
    """The first outputs of the published generator with state 1234567."""
    state, outputs = 1234567, []
    for _ in range(3):
        state = (state + GOLDEN) % WORD
        outputs.append(mix(state))
    assert outputs == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_equals_the_plain_twin() -> None:
    for seed, step, purpose in [(0, 0, ""), (7, 3, "order"), (-1, 10**12, "corruption"), (2**63, 1, "é")]:
        draws = Draws(seed, step, rows=[5, 0], purpose=purpose)
        for call in (1, 2):
            bits = draws.bits(2, 3)
            assert bits.shape == (2, 2, 3)
            expected = [[plain_bits(seed, step, row, purpose, call=call, index=i) for i in range(6)] for row in (5, 0)]
            assert [[int(b) % WORD for b in row] for row in bits.flatten(1)] == expected


def test_known_answers() -> None:
    """A change here changes every run that was ever made."""
    draws = Draws(1, 2, rows=2, purpose="order")
    assert draws.bits(2).tolist() == [
        [5792849151994182866, -2107213083724622729],
        [-8040527765042759430, 776942983977773275],
    ]
    assert draws.randint(10, 6).tolist() == [[5, 0, 2, 3, 1, 6], [3, 0, 1, 0, 8, 1]]
    assert draws.permutation(6).tolist() == [[4, 1, 2, 0, 5, 3], [5, 3, 2, 4, 0, 1]]
    assert draws.categorical([1, 2, 3], 6).tolist() == [[0, 0, 0, 0, 0, 1], [2, 2, 0, 1, 2, 2]]


def test_rows_do_not_depend_on_their_neighbours() -> None:
    whole = Draws(3, 4, rows=6)
    some = Draws(3, 4, rows=[4, 1])
    one = Draws(3, 4, rows=torch.tensor([1]))
    for _ in range(3):
        permutation = whole.permutation(9)
        assert torch.equal(permutation[[4, 1]], some.permutation(9))
        assert torch.equal(permutation[[1]], one.permutation(9))


def test_keys_calls_and_rows_differ() -> None:
    kinds = [
        Draws(seed, step, rows=3, purpose=purpose)
        for seed, step, purpose in itertools.product((0, 1), (0, 1), ("", "order"))
    ]
    numbers = torch.cat([draws.bits(50).flatten() for draws in kinds for _ in range(2)])
    assert len(numbers.unique()) == len(numbers) == 8 * 2 * 3 * 50


def chi_square(counts: torch.Tensor, expected: torch.Tensor) -> float:
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("rows", [1, 20_000])
def test_uniform_within_a_row_and_across_rows(rows: int) -> None:
    each = 200_000 // rows
    draws = Draws(11, rows=rows)
    uniform = draws.rand(each)
    assert float(uniform.min()) >= 0
    assert float(uniform.max()) < 1
    counts = torch.histc(uniform, bins=100, min=0, max=1)
    assert chi_square(counts, torch.full((100,), 2000.0)) < 170  # 99 degrees of freedom, 1e-5 lies above
    integers = draws.randint(7, each)
    assert chi_square(torch.bincount(integers.flatten()), torch.full((7,), 200_000 / 7)) < 36
    truth = draws.bernoulli(0.3, each).float().mean()
    assert abs(float(truth) - 0.3) < 5 * math.sqrt(0.21 / 200_000)
    categories = torch.bincount(draws.categorical([0.5, 0.0, 1.5], each).flatten(), minlength=3)
    assert categories[1] == 0
    assert abs(float(categories[0]) / 200_000 - 0.25) < 5 * math.sqrt(0.1875 / 200_000)


def test_every_bit_is_fair() -> None:
    bits = Draws(12, rows=100).bits(1000)
    for place in range(64):
        share = float(((bits >> place) & 1).float().mean())
        assert abs(share - 0.5) < 5 * 0.5 / math.sqrt(100_000), place


def test_neighbouring_rows_steps_and_calls_are_uncorrelated() -> None:
    count = 100_000

    def correlation(one: torch.Tensor, other: torch.Tensor) -> float:
        return float(torch.corrcoef(torch.stack([one.flatten(), other.flatten()]))[0, 1])

    draws = Draws(13, rows=2)
    first, second = draws.rand(count), draws.rand(count)
    bound = 5 / math.sqrt(count)
    assert abs(correlation(first[0], first[1])) < bound
    assert abs(correlation(first, second)) < bound
    assert abs(correlation(first, Draws(13, 1, rows=2).rand(count))) < bound
    assert abs(correlation(first[0, 1:], first[0, :-1])) < bound


@pytest.mark.parametrize("length", [3, 4])
def test_permutations_are_uniform(length: int) -> None:
    rows = 48_000
    permutations = Draws(14, rows=rows).permutation(length)
    orders = list(itertools.permutations(range(length)))
    code = (permutations * length ** torch.arange(length)).sum(dim=1)
    counts = torch.tensor([int((code == sum(v * length**i for i, v in enumerate(order))).sum()) for order in orders])
    assert int(counts.sum()) == rows
    bound = {3: 31.0, 4: 62.0}[length]  # 5 and 23 degrees of freedom, 1e-5 lies above
    assert chi_square(counts, torch.full((len(orders),), rows / len(orders))) < bound


def test_bounds_may_differ_by_entry() -> None:
    high = torch.tensor([[1], [5], [1000]])
    draws = Draws(15, rows=3).randint(high, 500)
    assert draws[0].unique().tolist() == [0]
    assert draws[1].unique().tolist() == [0, 1, 2, 3, 4]
    assert int(draws[2].max()) > 900
    assert int(draws[2].max()) < 1000


def test_an_ordinary_generator_follows_the_key_and_the_calls() -> None:
    def numbers(*, seed: int, skip: int) -> torch.Tensor:
        draws = Draws(seed, rows=2)
        for _ in range(skip):
            draws.rand(1)
        return torch.rand(4, generator=draws.torch())

    assert torch.equal(numbers(seed=1, skip=0), numbers(seed=1, skip=0))
    assert not torch.equal(numbers(seed=1, skip=0), numbers(seed=2, skip=0))
    assert not torch.equal(numbers(seed=1, skip=0), numbers(seed=1, skip=1))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_devices_agree_to_the_bit() -> None:
    cpu, cuda = Draws(16, 5, rows=64), Draws(16, 5, rows=64, device="cuda")
    assert torch.equal(cpu.bits(1000), cuda.bits(1000).cpu())
    assert torch.equal(cpu.rand(1000), cuda.rand(1000).cpu())
    assert torch.equal(cpu.permutation(1000), cuda.permutation(1000).cpu())
    assert torch.equal(cpu.categorical([0.1, 0.9], 1000), cuda.categorical([0.1, 0.9], 1000).cpu())


def test_shared_numbers_are_of_the_step_and_differ_from_call_to_call() -> None:
    one, other = Draws(1, 5, rows=4), Draws(1, 5, rows=[90, 3])
    first, second = one.shared(), one.shared()
    assert (first, second) == (other.shared(), other.shared())
    assert len({first, second, Draws(1, 6, rows=4).shared(), Draws(2, 5, rows=4).shared()}) == 4
    many = torch.tensor([Draws(1, step, rows=1).shared() for step in range(2000)])
    assert float(many.mean()) == pytest.approx(0.5, abs=0.03)
    assert float(many.min()) >= 0.0
    assert float(many.max()) < 1.0


def test_spread_numbers_are_even_over_rows_and_uniform_over_steps() -> None:
    spread = torch.stack([Draws(1, step, rows=range(40, 72)).spread() for step in range(500)])  # [step, row]
    assert float(spread.sort(dim=1).values.diff(dim=1).max()) < 3 / 32
    assert torch.histc(spread[:, 7], bins=5, min=0, max=1).tolist() == pytest.approx([100] * 5, abs=35)
    assert torch.equal(Draws(1, 3, rows=[71, 45]).spread(), spread[3, [31, 5]])


def test_shared_and_spread_numbers_leave_the_rows_their_own() -> None:
    one, other = Draws(1, rows=3), Draws(1, rows=3)
    one.shared()
    other.spread()
    assert torch.equal(one.bits(4), other.bits(4)), "each is one call, whatever it gives"
