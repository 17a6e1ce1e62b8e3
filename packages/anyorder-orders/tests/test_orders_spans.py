"""Target spans: against a slow twin that walks along the row, and against the stated distributions."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anyorder.core import DataError, Draws, TokenBatch
from anyorder.orders import NgramSpans, Subset
from anyorder.orders.units import Units


def batch_of(seed: int, *, rows: int, length: int) -> TokenBatch:
    gen = torch.Generator().manual_seed(seed)
    index = torch.arange(length)
    ends = torch.randint(length // 2, length + 1, (rows, 1), generator=gen)
    padding = index >= ends
    doc = (torch.rand(rows, length, generator=gen) < 0.04).cumsum(1).masked_fill(padding, -1)
    return TokenBatch.of(
        torch.zeros(rows, length, dtype=torch.long),
        doc=doc,
        fixed=padding | (torch.rand(rows, length, generator=gen) < 0.08),
        word=(torch.rand(rows, length, generator=gen) < 0.6).cumsum(1),
    )


def units_of_row(batch: TokenBatch, row: int, unit: str) -> list[list[int]]:
    """The units of one row as lists of places, padding left out."""
    assert batch.word is not None
    units: list[list[int]] = []
    for place in range(batch.length):
        if batch.padding[row, place]:
            continue
        before = place - 1
        joins = (
            unit == "words"
            and before >= 0
            and not batch.fixed[row, before]
            and not batch.fixed[row, place]
            and batch.doc[row, before] == batch.doc[row, place]
            and batch.word[row, before] == batch.word[row, place]
        )
        if joins:
            units[-1].append(place)
        else:
            units.append([place])
    return units


def walk(choice: NgramSpans, batch: TokenBatch, row: int, draws: Draws) -> set[int]:
    """The slow twin: one window after another, place by place, on the same draws."""
    units = units_of_row(batch, row, choice.unit)
    windows = [round(n * choice.k) for n in range(1, choice.max_n + 1)]
    if choice.placement == "beside":
        windows = [n + window for n, window in enumerate(windows, start=1)]
    slots = batch.length // min(windows) + 1
    turn = int(draws.randint(torch.tensor([[len(units)]] * draws.rows).clamp(min=1), 1)[row])
    places, weights = [], []
    for n, window in enumerate(windows, start=1):
        room = window - n + 1 if choice.placement == "inside" else window - n
        places += [(n, offset) for offset in range(room)]
        weights += [(1 / n if choice.distribution == "inverse" else 1.0) / room] * room
    drawn = [places[number] for number in draws.categorical(weights, slots)[row].tolist()]
    filler = draws.bits(batch.length)[row]

    def free(place: int) -> bool:
        return not bool(batch.fixed[row, place])

    tokens = sum(len(unit) for unit in units)
    goal = max(1, int(tokens / choice.k + 0.5))
    chosen: list[int] = []
    cursor = 0
    for n, offset in drawn:
        start = last = -1
        for number in range(cursor + offset, min(cursor + offset + n, len(units))):
            unit = units[(number + turn) % len(units)]
            first = unit[0]
            if not free(first) or (last >= 0 and crosses(batch, row, start, first)):
                break
            if last < 0:
                start = first
            last = first
            chosen.extend(unit)
        cursor += windows[n - 1]
    del chosen[goal:]
    rest = [place for place in range(batch.length) if free(place) and place not in chosen]
    rest.sort(key=lambda place: int(filler[place]) >> 2)
    return set(chosen + rest[: goal - len(chosen)])


def crosses(batch: TokenBatch, row: int, start: int, place: int) -> bool:
    """Whether a fixed token, or the end of a document, lies between two places."""
    low, high = min(start, place), max(start, place)
    if bool(batch.fixed[row, low : high + 1].any()):
        return True
    return len(set(batch.doc[row, low : high + 1].tolist())) > 1


choices = st.builds(
    NgramSpans,
    k=st.sampled_from([1, 2, 3.5, 6]),
    max_n=st.integers(1, 5),
    unit=st.sampled_from(["words", "tokens"]),
    distribution=st.sampled_from(["inverse", "uniform"]),
    placement=st.sampled_from(["inside", "beside"]),
)


@settings(max_examples=150, deadline=None)
@given(choice=choices, seed=st.integers(0, 2**31), length=st.integers(2, 50))
def test_spans_equal_those_of_a_walk_along_the_row(choice: NgramSpans, seed: int, length: int) -> None:
    batch = batch_of(seed, rows=3, length=length)
    target = choice.choose(batch, torch.zeros_like(batch.ids), generator=Draws(seed, rows=3))
    for row in range(3):
        expected = walk(choice, batch, row, Draws(seed, rows=3))
        assert set(target[row].nonzero().flatten().tolist()) == expected


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**31), length=st.integers(1, 50), unit=st.sampled_from(["words", "tokens"]))
def test_units_are_numbered_as_read(seed: int, length: int, unit: str) -> None:
    batch = batch_of(seed, rows=2, length=length)
    units = Units.of(batch, unit)
    for row in range(2):
        expected = units_of_row(batch, row, unit)
        assert int(units.count[row]) == max(1, len(expected))
        for number, places in enumerate(expected):
            assert units.number[row, places].tolist() == [number] * len(places)


@pytest.mark.parametrize("sampler", [Subset(rate=0.5, unit="words"), Subset(rate=0.2, unit="words")], ids=str)
def test_whole_words_are_cut_once_a_row_at_most(sampler: Subset) -> None:
    batch = batch_of(11, rows=64, length=80)
    target = sampler.sample(batch, generator=Draws(1, rows=64)).target
    cut_rows = 0
    for row in range(64):
        free = [u for u in units_of_row(batch, row, "words") if not batch.fixed[row, u[0]]]
        cut = [u for u in free if 0 < int(target[row, u].sum()) < len(u)]
        assert len(cut) <= 1
        cut_rows += len(cut)
    assert 0 < cut_rows < 64


def plain(rows: int, length: int) -> TokenBatch:
    return TokenBatch.of(torch.zeros(rows, length, dtype=torch.long))


@pytest.mark.parametrize(
    ("distribution", "expected"),
    [("inverse", [0.438, 0.219, 0.146, 0.109, 0.088]), ("uniform", [0.2] * 5)],
)
@pytest.mark.parametrize("placement", ["inside", "beside"])
def test_lengths_follow_the_stated_distribution(distribution: str, expected: list[float], placement: str) -> None:
    # The context is so wide that spans hardly ever touch; seen before any goal cuts them or single tokens fill up.
    choice = NgramSpans(k=60, unit="tokens", distribution=distribution, placement=placement)
    batch = plain(300, 8000)
    units = Units.of(batch, "tokens")
    spans = choice._spans(batch, units, units.number, torch.zeros(300, 1).long(), generator=Draws(5, rows=300))
    edges = torch.nn.functional.pad(spans.long(), (1, 1)).diff(dim=1)
    lengths = (edges == -1).nonzero()[:, 1] - (edges == 1).nonzero()[:, 1]
    counts = lengths.bincount(minlength=6)
    assert counts[6:].sum() < 0.002 * counts.sum()
    share = counts[1:6] / counts.sum()
    assert (share - torch.tensor(expected)).abs().max() < 0.015


@pytest.mark.parametrize("placement", ["inside", "beside"])
def test_density_is_one_in_k_and_no_place_is_favoured(placement: str) -> None:
    rows, length = 20000, 48
    batch = plain(rows, length)
    choice = NgramSpans(k=6, unit="tokens", placement=placement)
    share = choice.choose(batch, batch.ids, generator=Draws(6, rows=rows)).double().mean(0)
    assert float(share.mean()) == pytest.approx(1 / 6, abs=1e-9)
    assert (share - 1 / 6).abs().max() < 5 * (1 / 6 * 5 / 6 / rows) ** 0.5


def test_spans_inside_their_context_need_few_single_tokens() -> None:
    batch = plain(200, 512)
    inside = NgramSpans(k=6, unit="tokens").choose(batch, batch.ids, generator=Draws(4, rows=200))
    uniform = Subset(rate=1 / 6).sample(batch, generator=Draws(4, rows=200)).target

    def runs(target: torch.Tensor) -> float:
        starts = torch.nn.functional.pad(target.long(), (1, 0)).diff(dim=1) == 1
        return float(target.sum() / starts.sum())

    assert runs(uniform) == pytest.approx(6 / 5, abs=0.03)
    assert runs(inside) > 1.9  # 2.19 units a span, less what filling up adds


def test_words_without_borders_are_refused_with_the_remedy() -> None:
    with pytest.raises(DataError, match="set unit to 'tokens', or prepare the corpus with word borders"):
        NgramSpans().choose(plain(1, 8), plain(1, 8).ids, generator=Draws(0, rows=1))
    for unit in ("words", "word_spans"):
        with pytest.raises(DataError, match="where words begin"):
            Subset(unit=unit).sample(plain(1, 8), generator=Draws(0, rows=1))
