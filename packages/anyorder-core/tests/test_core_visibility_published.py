"""Births and deaths give the masks that others published, re-derived here from their own definitions."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from anyorder.core import Plan, Slots, TokenBatch, Visibility


def visible(readers: Slots, keys: Slots) -> Tensor:
    return Visibility.of(readers, keys).dense()[0]


def slots(birth: list[int], *, time: list[int] | None = None, death: list[int] | None = None) -> Slots:
    def row(values: list[int]) -> Tensor:
        return torch.tensor([values], dtype=torch.long)

    return Slots(
        ids=row(birth),
        position=torch.arange(len(birth))[None],
        birth=row(birth),
        time=row(birth if time is None else time),
        death=None if death is None else row(death),
        doc=row(birth) * 0,
        low=0,
        high=len(birth),
    )


def official_half(rank: list[int], masked: list[bool], functional: list[bool]) -> tuple[list[list[bool]], list[int]]:
    """``data_utils.py`` ``_local_perm`` of one half: what each token may not attend to, and who is a target."""
    length = len(rank)
    target = [masked[i] and not functional[i] for i in range(length)]
    with_rank = [masked[i] or functional[i] for i in range(length)]
    index = [rank[i] if with_rank[i] else -1 for i in range(length)]
    self_rank = [index[i] if target[i] else index[i] + 1 for i in range(length)]
    blocked = [[self_rank[i] <= index[j] and with_rank[j] for j in range(length)] for i in range(length)]
    return blocked, [int(t) for t in target]


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_xlnet_with_halves_functional_tokens_and_perm_size(data: st.DataObject) -> None:
    perm_size = data.draw(st.integers(1, 6), label="perm_size")
    halves = [perm_size * data.draw(st.integers(1, 3), label="blocks") for _ in range(2)]
    length = sum(halves)
    draw = random.Random(data.draw(st.integers(0, 10**6), label="seed"))
    masked = [draw.random() < 0.4 for _ in range(length)]
    functional = [draw.random() < 0.15 for _ in range(length)]

    # The official masks: blocked within each half, all of the second half hidden from the first, none the other way.
    blocked = torch.zeros(length, length, dtype=torch.bool)
    time, start = [], 0
    target: list[int] = []
    for half in halves:
        local = draw.sample(range(perm_size), perm_size)  # one permutation, repeated in every block
        rank = [block * perm_size + local[k] for block in range(half // perm_size) for k in range(perm_size)]
        stop = start + half
        rows, is_target = official_half(rank, masked[start:stop], functional[start:stop])
        blocked[start:stop, start:stop] = torch.tensor(rows)
        target += is_target
        time += [rank[i] + 1 if masked[start + i] or functional[start + i] else 0 for i in range(half)]
        start = stop
    blocked[: halves[0], halves[0] :] = True
    query = ~blocked
    content = query | torch.eye(length, dtype=torch.bool)

    batch = TokenBatch.of(
        torch.zeros(1, length, dtype=torch.long),
        block=torch.tensor([[0] * halves[0] + [1] * halves[1]]),
    )
    plan = Plan.of(torch.tensor([time]), torch.tensor([target]).bool()).within_blocks(batch)
    keys = Slots.of_tokens(batch, plan.time)
    queries = Slots.of_tokens(batch, plan.time, time=plan.time - 1)
    assert torch.equal(visible(keys, keys), content)
    chosen = plan.target[0]
    assert torch.equal(visible(queries, keys)[chosen], query[chosen])


@pytest.mark.parametrize("length", [1, 2, 9])
def test_causal(length: int) -> None:
    keys = slots(list(range(length)))
    assert torch.equal(visible(keys, keys), torch.ones(length, length).tril().bool())


@pytest.mark.parametrize(("prefix", "length"), [(0, 5), (1, 5), (3, 7), (7, 7)])
def test_prefix_lm(prefix: int, length: int) -> None:
    """UniLM, figure 1: the prefix sees itself, the rest sees the prefix and what stands before it."""
    plan = Plan.from_order(torch.arange(length)[None], given=prefix)
    expected = torch.ones(length, length).tril().bool()
    expected[:, :prefix] = True
    keys = slots(plan.time[0].tolist())
    assert torch.equal(visible(keys, keys), expected)


@pytest.mark.parametrize("seed", range(5))
def test_sigma_gpt(seed: int) -> None:
    """A causal mask over the shuffled sequence, put back into natural order."""
    length = 9
    order = random.Random(seed).sample(range(length), length)
    shuffled = torch.ones(length, length).tril().bool()
    natural = torch.zeros_like(shuffled)
    for i in range(length):
        for j in range(length):
            natural[order[i], order[j]] = shuffled[i, j]
    keys = slots(Plan.from_order(torch.tensor([order])).time[0].tolist())
    assert torch.equal(visible(keys, keys), natural)


@pytest.mark.parametrize("length", range(1, 20))
def test_mpnet(length: int) -> None:
    """Every reader sees ``length`` slots: a token's content once it is known, and until then its [MASK]."""
    draw = random.Random(length)
    order = draw.sample(range(length), length)
    given_tokens = draw.randrange(length + 1)
    rank = {place: number for number, place in enumerate(order)}
    targets = sorted(order[given_tokens:])
    time = Plan.from_order(torch.tensor([order]), given=given_tokens).time[0].tolist()
    masks = len(targets)
    content = slots(time + [0] * masks, death=[10**9] * length + [time[place] - 1 for place in targets])
    queries = slots([time[place] for place in targets], time=[time[place] - 1 for place in targets])

    def expected(known: int) -> list[bool]:
        """What a reader sees that knows the tokens of rank under ``known``."""
        tokens = [rank[place] < max(known, given_tokens) for place in range(length)]
        return tokens + [rank[place] >= max(known, given_tokens) for place in targets]

    rows = [expected(rank[place] + 1) for place in range(length)] + [expected(0)] * masks
    assert torch.equal(visible(content, content), torch.tensor(rows))
    if targets:
        assert torch.equal(visible(queries, content), torch.tensor([expected(rank[place]) for place in targets]))
    assert (visible(content, content).sum(dim=1) == length).all()


@pytest.mark.parametrize(("blocks", "size"), [(1, 3), (3, 1), (4, 2)])
def test_block_diffusion(blocks: int, size: int) -> None:
    """BD3-LM: block-diagonal over the noised copy, its earlier clean blocks, block-causal over the clean copy."""
    length = blocks * size
    block = [place // size for place in range(length)]
    clean = [2 * number + 1 for number in block]
    noised = [2 * number for number in block]
    both = slots(clean + noised, death=[10**9] * length + noised)
    expected = torch.zeros(2 * length, 2 * length, dtype=torch.bool)
    for i in range(length):
        for j in range(length):
            expected[i, j] = block[j] <= block[i]
            expected[length + i, j] = block[j] < block[i]
            expected[length + i, length + j] = block[j] == block[i]
    assert torch.equal(visible(both, both), expected)
