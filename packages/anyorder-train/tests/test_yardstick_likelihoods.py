"""Any-order likelihood, pseudo-likelihood and the diffusion bound against enumeration, on a small model in float64."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from scored_by_hand import VOCAB, clm, log_probabilities, make, mlm, plm, text
from torch import Tensor

from anyorder.core import DataError, Draws, Plan, RecipeError, Streams, TokenBatch, Vocab
from anyorder.masks import TwoStream
from anyorder.orders import LeftToRight, Permutation
from anyorder.train.objective import Objective
from anyorder.train.yardsticks import (
    ALL_YARDSTICKS,
    YARDSTICKS,
    AnyOrder,
    DiffusionBound,
    Measurement,
    PseudoLikelihood,
    Score,
    choose_yardsticks,
    evaluating,
    measure_all,
    score_tokens,
)
from anyorder.train.yardsticks import LeftToRight as LeftToRightYardstick
from anyorder.train.yardsticks.plans import at_noise_level, in_order
from anyorder.train.yardsticks.yardstick import spread_of

BYTES = torch.arange(VOCAB.size) + 1
Build = Callable[[], Objective]


@pytest.fixture
def windows() -> TokenBatch:
    return TokenBatch.of(text(3, 8))


def conditional(objective: Objective, ids: Tensor, place: int, hidden: list[int], time: list[int]) -> float:
    """``-log p(x_place | .)`` of one row under a plan written out by hand."""
    return -float(log_probabilities(objective, ids, place, time=time, targets=hidden, unseen=hidden)[ids[place]])


def encoder(objective: Objective, ids: Tensor, place: int, hidden: list[int]) -> float:
    """All but the hidden tokens given, seeing each other."""
    return conditional(objective, ids, place, hidden, [int(i in hidden) for i in range(len(ids))])


def chain(objective: Objective, ids: Tensor, order: list[int]) -> float:
    """The chain rule of a permutation model over the last tokens of an order, the others being given."""
    time = [order.index(i) + 1 if i in order else 0 for i in range(len(ids))]
    return sum(conditional(objective, ids, place, order[rank:], time) for rank, place in enumerate(order))


def stepwise(objective: Objective, ids: Tensor, order: list[int]) -> float:
    return sum(encoder(objective, ids, place, order[rank:]) for rank, place in enumerate(order))


def sampled_order(number: int, row: int, *, seed: int, rows: int = 3) -> list[int]:
    """The order of the second half in which the yardstick asks."""
    key = Draws(seed, number, rows=rows, purpose="yardstick order").permutation(8)[row].tolist()
    return sorted(range(4, 8), key=key.__getitem__)


@pytest.mark.parametrize(("build", "by_hand"), [(plm, chain), (mlm, stepwise)])
def test_any_order_is_the_chain_rule_of_every_sampled_order(windows: TokenBatch, build: Build, by_hand) -> None:  # type: ignore[no-untyped-def]
    objective = build()
    found = AnyOrder(orders=3).measure(objective, windows, piece_bytes=BYTES, seed=5)
    assert found.standing.kind == "exact"
    for row in range(3):
        orders = [sampled_order(number, row, seed=5) for number in range(3)]
        assert len({tuple(order) for order in orders}) > 1
        truth = [by_hand(objective, windows.ids[row], order) for order in orders]
        for number in range(3):
            assert found.scores[f"order {number + 1}"].nats[row] == pytest.approx(truth[number], abs=1e-10)
        assert found.headline.nats[row] == pytest.approx(sum(truth) / 3, abs=1e-10)
    assert found.headline.tokens == (4, 4, 4)
    assert found.headline.bytes == tuple(int(BYTES[row[4:]].sum()) for row in windows.ids)
    assert found.spread > 1e-3


def test_its_mean_over_every_order_is_the_expectation_of_the_diffusion_bound(windows: TokenBatch) -> None:
    """All 24 orders of the second half, and all 15 sets with their chances: one number for models in encoder form."""
    ids = windows.ids[0]
    for build in (mlm, plm):
        objective = build()
        places = range(4, 8)
        orders = list(itertools.permutations(places))
        over_orders = sum(stepwise(objective, ids, list(order)) for order in orders) / len(orders)
        bound = 0.0
        for count in range(1, 5):
            for hidden in itertools.combinations(places, count):
                nats = sum(encoder(objective, ids, place, list(hidden)) for place in hidden)
                bound += nats * 4 / count / math.comb(4, count) / 4
        assert bound == pytest.approx(over_orders, abs=1e-10)


@pytest.mark.parametrize("build", [plm, mlm])
def test_the_diffusion_bound_is_its_sum_over_the_sets_drawn(windows: TokenBatch, build: Build) -> None:
    """Four draws over four tokens have sizes 1 to 4, once each."""
    objective = build()
    found = DiffusionBound(draws=4).measure(objective, windows, piece_bytes=BYTES, seed=2)
    assert found.standing.kind == "bound"
    for row in range(3):
        total = 0.0
        for number in range(4):
            key = Draws(2, number, rows=3, purpose="noise").permutation(8)[row].tolist()
            hidden = sorted(range(4, 8), key=key.__getitem__)[4 - (number + 1) :]
            total += sum(encoder(objective, windows.ids[row], i, hidden) for i in hidden) * 4 / len(hidden)
        assert found.headline.nats[row] == pytest.approx(total / 4, abs=1e-10)
    assert found.headline.tokens == (4, 4, 4)


def test_the_diffusion_bound_is_unbiased() -> None:
    """The mean of many draws of a row comes to the exact expectation, within four standard errors."""
    objective = mlm()
    ids = text(1, 6, seed=4)[0]
    exact = 0.0
    for count in range(1, 4):
        for hidden in itertools.combinations(range(3, 6), count):
            nats = sum(encoder(objective, ids, place, list(hidden)) for place in hidden)
            exact += nats * 3 / count / math.comb(3, count) / 3
    rows = TokenBatch.of(ids.expand(400, -1))
    nats = torch.tensor(DiffusionBound(draws=2).measure(objective, rows, piece_bytes=BYTES).headline.nats)
    error = float(nats.std()) / 20
    assert error > 0
    assert abs(float(nats.mean()) - exact) < 4 * error


@pytest.mark.parametrize("build", [plm, mlm])
def test_pseudo_likelihood_is_every_token_given_all_others(windows: TokenBatch, build: Build) -> None:
    objective = build()
    found = PseudoLikelihood().measure(objective, windows, piece_bytes=BYTES)
    for row in range(3):
        truth = sum(encoder(objective, windows.ids[row], place, [place]) for place in range(4, 8))
        assert found.headline.nats[row] == pytest.approx(truth, abs=1e-10)
    assert "no likelihood" in found.standing.reason


def test_every_sampled_order_is_a_distribution() -> None:
    """Over all 13 ** 2 ways to fill the second half of four tokens."""
    pairs = torch.cartesian_prod(torch.arange(VOCAB.size), torch.arange(VOCAB.size))
    ids = torch.cat([torch.tensor([9, 11]).expand(len(pairs), -1), pairs], dim=1)
    hidden = torch.tensor([False, False, True, True]).expand(len(pairs), -1)
    for order in ([0, 1, 2, 3], [0, 1, 3, 2]):
        objective = plm()
        (plan,) = in_order(TokenBatch.of(ids), hidden, torch.tensor(order).expand(len(pairs), -1))
        with evaluating(objective):
            nats = score_tokens(objective, TokenBatch.of(ids), plan).sum(dim=1)
        assert float((-nats).exp().sum()) == pytest.approx(1.0, abs=1e-12)


def test_sizes_of_noise_are_uniform_and_weigh_their_inverse() -> None:
    rows = 1000
    batch = TokenBatch.of(torch.full((rows, 9), 9))
    hidden = torch.zeros(rows, 9, dtype=torch.bool)
    hidden[:, 4:] = True
    hidden[0] = False
    level = (torch.arange(rows) / rows)[:, None]
    order = Draws(0, rows=rows).permutation(9)
    plan = at_noise_level(batch, hidden, order, level=level)
    count = plan.target.sum(1)
    assert torch.bincount(count[1:], minlength=6).tolist() == [0, 199, 200, 200, 200, 200]
    assert count[0] == 0
    assert not (plan.target & ~hidden).any()
    torch.testing.assert_close(plan.weight.sum(1)[1:], torch.full((rows - 1,), 5.0, dtype=torch.float64))
    ordered = at_noise_level(batch, hidden, order, level=level, context=Draws(1, rows=rows))
    assert torch.equal(ordered.target, plan.target)
    for row in (1, 500, 999):
        times = ordered.time[row]
        given = times[~plan.target[row]]
        assert given.sort().values.tolist() == list(range(1, len(given) + 1))
        assert set(times[plan.target[row]].tolist()) == {len(given) + 1}


@pytest.mark.parametrize("yardstick", [AnyOrder(), DiffusionBound(), PseudoLikelihood()])
def test_undefined_for_a_left_to_right_model_with_the_reason(windows: TokenBatch, yardstick: AnyOrder) -> None:
    found = yardstick.measure(clm(), windows, piece_bytes=BYTES)
    assert found.standing.kind == "undefined"
    assert found.standing.reason
    assert found.headline is None
    assert found.spread is None


def test_untrained_questions_say_so() -> None:
    standing = AnyOrder().defined_for(make(LeftToRight(), TwoStream()))
    assert standing.kind == "exact"
    assert "never makes such plans" in standing.reason


class Choosy(TwoStream):
    """Refuses plans whose targets share a time."""

    def build(self, batch: TokenBatch, plan: Plan, *, vocab: Vocab, num_targets: int, generator: Draws) -> Streams:
        for times, target in zip(plan.time, plan.target, strict=True):
            if len(times[target].unique()) < int(target.sum()):
                raise DataError("two targets share a time")
        return super().build(batch, plan, vocab=vocab, num_targets=num_targets, generator=generator)

    def scoring(self) -> Choosy:
        return self


def test_masks_that_refuse_a_plan_give_no_number(windows: TokenBatch) -> None:
    objective = make(Permutation(), Choosy())
    found = DiffusionBound().measure(objective, windows, piece_bytes=BYTES)
    assert found.standing.kind == "undefined"
    assert "two targets share a time" in found.standing.reason
    assert AnyOrder().measure(objective, windows, piece_bytes=BYTES).headline is not None


def test_a_context_that_always_had_an_order_gets_one(windows: TokenBatch) -> None:
    ordered = make(Permutation(context="ordered"), TwoStream())
    for yardstick in (AnyOrder(), DiffusionBound(), PseudoLikelihood()):
        one, other = (yardstick.measure(o, windows, piece_bytes=BYTES).headline for o in (plm(), ordered))
        assert one.tokens == other.tokens
        assert one.nats != pytest.approx(other.nats)


def test_all_are_asked_about_the_tokens_of_left_to_right(windows: TokenBatch) -> None:
    found = measure_all(plm(), windows, piece_bytes=BYTES, yardsticks=ALL_YARDSTICKS, seed=3)
    tokens = found[LeftToRightYardstick().name].headline.tokens
    for name in ("any_order", "diffusion_bound", "pseudo_likelihood"):
        assert found[name].headline.tokens == tokens
        assert found[name].headline.bytes == found["left_to_right"].headline.bytes
        again = Measurement.from_json(json.loads(json.dumps(found[name].to_json())))
        assert again == found[name]
    assert all(yardstick.kinds and yardstick.says for yardstick in ALL_YARDSTICKS)


def test_spread_is_the_deviation_of_a_window_over_its_samples() -> None:
    def score(*nats: float) -> Score:
        return Score(nats=nats, tokens=(2, 4, 0), bytes=(1, 1, 0))

    one, other = score(1.0, 8.0, 0.0), score(3.0, 8.0, 0.0)
    # The first window has bits 0.5 and 1.5 a token (over ln 2), the second twice the same, the third has no token.
    assert spread_of([one, other]) == pytest.approx(math.sqrt((0.5 + 0.0) / 2) / math.log(2))
    assert spread_of([one]) is None
    assert spread_of([one, one]) == 0.0


def test_yardsticks_are_chosen_by_name() -> None:
    assert choose_yardsticks("basic") == YARDSTICKS
    assert choose_yardsticks("all") == ALL_YARDSTICKS
    assert [y.name for y in choose_yardsticks("any_order, cloze")] == ["cloze", "any_order"]
    with pytest.raises(RecipeError, match=r"'any_oder'.*did you mean 'any_order'"):
        choose_yardsticks("cloze,any_oder")


def test_a_measurement_of_before_has_no_spread(windows: TokenBatch) -> None:
    tree = PseudoLikelihood().measure(mlm(), windows, piece_bytes=BYTES).to_json()
    del tree["spread"]
    assert Measurement.from_json(tree) == replace(Measurement.from_json(tree), spread=None)
