"""Score terms: the view, the gather, the entry-wise form and blocks of rows all agree."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from anyorder.core import DistanceTerm, MatchTerm, ScoreBias, relative_shift


def by_entry(bias: ScoreBias | DistanceTerm | MatchTerm, shape: tuple[int, ...]) -> Tensor:
    places = torch.meshgrid(*(torch.arange(size) for size in shape), indexing="ij")
    return bias.score_mod()(*places)


def run(start: int, count: int) -> Tensor:
    return torch.arange(start, start + count).expand(2, -1)


def distance_term(readers: int, keys: int, *, low: int, contiguous: bool, query: bool = True) -> DistanceTerm:
    """Readers follow on ``low`` keys of memory; column 0 is one more than the greatest distance."""
    draw = torch.Generator().manual_seed(readers * 100 + keys)
    depth = 3 if query else 1
    return DistanceTerm(
        query=torch.randn(2, 2, readers, depth, generator=draw, dtype=torch.float64) if query else None,
        codes=torch.randn(1, 2, depth, readers + keys, generator=draw, dtype=torch.float64),
        reader=run(0, readers),
        key=run(-low, keys),
        high=readers + low,
        contiguous=contiguous,
    )


@pytest.mark.parametrize("readers", range(1, 8))
@pytest.mark.parametrize("keys", range(1, 10))
def test_the_shift_is_the_gather(readers: int, keys: int) -> None:
    scores = torch.randn(2, 3, readers, readers + keys)
    shifted = relative_shift(scores, keys=keys)
    place = readers - torch.arange(readers)[:, None] + torch.arange(keys)
    assert torch.equal(shifted, scores.gather(3, place.expand(2, 3, -1, -1)))
    assert shifted.untyped_storage().data_ptr() == scores.untyped_storage().data_ptr()


@pytest.mark.parametrize("query", [True, False])
@pytest.mark.parametrize(("readers", "keys", "low"), [(1, 1, 0), (1, 5, 4), (4, 4, 0), (5, 8, 3), (3, 9, 6)])
def test_distances(readers: int, keys: int, low: int, query: bool) -> None:
    fast = distance_term(readers, keys, low=low, contiguous=True, query=query)
    slow = distance_term(readers, keys, low=low, contiguous=False, query=query)
    scores = slow.scores.expand(2, 2, readers, -1)
    dense = fast.dense().expand(2, 2, readers, keys)
    for q in range(readers):
        for k in range(keys):
            column = slow.high - (q - (k - low))
            assert torch.equal(dense[:, :, q, k], scores[:, :, q, column])
    assert torch.equal(dense, slow.dense().expand_as(dense))
    assert torch.equal(dense, by_entry(fast, tuple(dense.shape)))


def blocks(readers: int, keys: int) -> list[tuple[slice, slice]]:
    def runs(count: int) -> list[slice]:
        return [slice(start, stop) for start in range(count) for stop in range(start + 1, count + 1)]

    return [(some, others) for some in runs(readers) for others in runs(keys)]


@pytest.mark.parametrize("contiguous", [True, False])
def test_blocks_of_distances(contiguous: bool) -> None:
    term = distance_term(5, 7, low=2, contiguous=contiguous)
    dense = term.dense()
    for readers, keys in blocks(5, 7):
        part = term.block(readers, keys)
        expected = dense[:, :, readers, keys]
        assert torch.allclose(part.dense(), expected, atol=1e-14)
        assert torch.allclose(by_entry(part, tuple(expected.shape)), expected, atol=1e-14)


def test_distances_of_scattered_rows_differ_by_row() -> None:
    term = distance_term(3, 4, low=1, contiguous=False)
    scattered = DistanceTerm(
        query=term.query,
        codes=term.codes,
        reader=torch.tensor([[0, 2, 1], [2, 2, 0]]),
        key=term.key,
        high=term.high,
    )
    dense = scattered.dense()
    for b in range(2):
        for q in range(3):
            for k in range(4):
                column = term.high - int(scattered.reader[b, q]) + int(term.key[b, k])
                assert torch.equal(dense[b, :, q, k], term.scores[b, :, q, column])


def match_term() -> MatchTerm:
    return MatchTerm(
        scores=torch.randn(2, 3, 4, 2, dtype=torch.float64),
        reader=torch.tensor([[0, 0, 1, 7], [2, 2, 2, 0]]),
        key=torch.tensor([[0, 1, 7, 0, 5], [2, 0, 2, 9, 2]]),
    )


def test_matches() -> None:
    term = match_term()
    dense = term.dense()
    assert dense.shape == (2, 3, 4, 5)
    for b in range(2):
        for q in range(4):
            for k in range(5):
                other = int(term.reader[b, q] != term.key[b, k])
                assert torch.equal(dense[b, :, q, k], term.scores[b, :, q, other])
    assert torch.equal(dense, by_entry(term, (2, 3, 4, 5)))
    for readers, keys in blocks(4, 5):
        assert torch.equal(term.block(readers, keys).dense(), dense[:, :, readers, keys])


def test_renamed_segments_match_alike() -> None:
    term = match_term()
    renamed = MatchTerm(scores=term.scores, reader=100 - 3 * term.reader, key=100 - 3 * term.key)
    assert torch.equal(term.dense(), renamed.dense())


def test_a_bias_is_the_sum_of_its_terms() -> None:
    match = MatchTerm(scores=torch.randn(2, 2, 4, 2, dtype=torch.float64), reader=run(0, 4) % 2, key=run(0, 6) % 2)
    distance = distance_term(4, 6, low=2, contiguous=True)
    one, other = ScoreBias((distance,)), ScoreBias((match,))
    joined = ScoreBias.join(one, None, other)
    assert joined is not None
    assert torch.equal(joined.dense(), distance.dense() + match.dense())
    assert torch.allclose(joined.dense(), by_entry(joined, (2, 2, 4, 6)), atol=1e-14)
    for readers, keys in blocks(4, 6):
        part = joined.block(readers, keys).dense()
        assert torch.allclose(part, joined.dense()[:, :, readers, keys], atol=1e-14)
    assert ScoreBias.join(None, None) is None
    assert ScoreBias.join() is None
