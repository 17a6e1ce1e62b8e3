"""What the constructors refuse, what they promise, and that recipes find them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anyorder import orders
from anyorder.core import CONSECUTIVE, ONE_SHOT, PERMUTATION, OrderSampler, RecipeError, find
from anyorder.orders import AllTargets, LastFraction, LeftToRight, NgramSpans, Permutation, Prefix, Subset, TargetChoice


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: LastFraction(k=0.5), "k: k is 0.5; it must be 1 or more"),
        (lambda: LastFraction(k=float("nan")), "k: k is nan; it must be 1 or more"),
        (lambda: NgramSpans(k=0), "k: k is 0; it must be 1 or more"),
        (lambda: NgramSpans(max_n=0), "max_n: max_n is 0; it must be 1 or more"),
        (lambda: NgramSpans(unit="word"), "unit: unit is 'word'; allowed: 'words', 'tokens'; did you mean 'words'?"),
        (lambda: NgramSpans(distribution="zipf"), "allowed: 'inverse', 'uniform'"),
        (lambda: NgramSpans(placement="within"), "allowed: 'inside', 'beside'"),
        (lambda: Permutation(perm_size=0), "perm_size: perm_size is 0; it must be 1 or more"),
        (lambda: Permutation(context="order"), "allowed: 'unordered', 'ordered'"),
        (lambda: Subset(rate=0.0), "rate: rate is 0.0; it must be above 0 and at most 1"),
        (lambda: Subset(rate=1.5), "rate: rate is 1.5; it must be above 0 and at most 1"),
        (lambda: Subset(rate=float("nan")), "rate: rate is nan"),
        (lambda: Subset(unit="span", max_n=2), "did you mean 'spans'?"),
        (lambda: Subset(unit="spans", max_n=0), "max_n is 0; it must be 1 or more"),
        (lambda: Prefix(min_prefix=-0.1), "min_prefix is -0.1; it must be between 0 and 1"),
        (lambda: Prefix(max_prefix=1.1), "max_prefix is 1.1; it must be between 0 and 1"),
        (lambda: Prefix(min_prefix=0.6, max_prefix=0.5), "max_prefix 0.5 is below min_prefix 0.6"),
    ],
)
def test_a_wrong_setting_gives_one_clear_line(build: Callable[[], object], message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        build()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_setting_without_effect_warns() -> None:
    with pytest.warns(UserWarning, match="max_n has no effect with unit 'tokens'"):
        Subset(max_n=3)


def test_static_counts() -> None:
    assert Permutation().num_targets(512) == 85  # XLNet's num_predict
    assert Permutation(targets=NgramSpans(k=7)).num_targets(512) == 73
    assert Subset().num_targets(128) == 19
    assert Subset(rate=1).num_targets(7) == 7
    assert Permutation(targets=AllTargets()).num_targets(64) == LeftToRight().num_targets(64) == 64
    assert Prefix(min_prefix=0.25).num_targets(100) == 75
    assert LastFraction().num_targets(1) == LastFraction().num_targets(2) == 1


@pytest.mark.parametrize(
    ("name", "part", "trait"),
    [
        ("left_to_right", LeftToRight, CONSECUTIVE),
        ("prefix", Prefix, CONSECUTIVE),
        ("permutation", Permutation, PERMUTATION),
        ("subset", Subset, ONE_SHOT),
    ],
)
def test_order_samplers_are_found_by_name(name: str, part: type, trait: str) -> None:
    assert find("order", name) is part
    sampler = part()
    assert isinstance(sampler, OrderSampler)
    assert sampler.traits == {trait}


@pytest.mark.parametrize(
    ("name", "part"), [("last_fraction", LastFraction), ("ngram_spans", NgramSpans), ("all_targets", AllTargets)]
)
def test_target_choices_are_found_by_name(name: str, part: type) -> None:
    assert find("targets", name) is part
    assert isinstance(part(), TargetChoice)


def test_everything_public_is_documented() -> None:
    assert orders.__all__ == sorted(orders.__all__)
    for name in orders.__all__:
        assert getattr(orders, name).__doc__.splitlines()[0].endswith((".", ").")), name
