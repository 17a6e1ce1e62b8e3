"""Learning rates by hand, and which parameters are decayed."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_training import small_objective

from anyorder.core import RecipeError
from anyorder.train.optimizer import AdamW, parameter_groups
from anyorder.train.schedule import Schedule


def rates(schedule: Schedule, steps: int) -> list[float]:
    return [schedule.factor(step, steps=steps) for step in range(1, steps + 1)]


def test_linear_by_hand() -> None:
    assert rates(Schedule(warmup=4, min_ratio=0.2), 8) == pytest.approx([0.25, 0.5, 0.75, 1, 0.8, 0.6, 0.4, 0.2])


def test_cosine_by_hand() -> None:
    half = math.cos(math.pi / 4)
    expected = [0.5, 1, (1 + half) / 2, 0.5, (1 - half) / 2, 0]
    assert rates(Schedule(warmup=2, decay="cosine"), 6) == pytest.approx(expected)


def test_constant_and_no_warmup() -> None:
    assert rates(Schedule(warmup=0, decay="constant", min_ratio=0.3), 3) == [1, 1, 1]
    assert rates(Schedule(warmup=0), 4) == pytest.approx([0.75, 0.5, 0.25, 0])


def test_a_fraction_counts_steps() -> None:
    assert Schedule(warmup=0.25).warmup_steps(8) == 2
    assert Schedule(warmup=1).warmup_steps(8) == 1


@given(
    steps=st.integers(1, 50),
    warmup=st.floats(0, 0.99),
    low=st.floats(0, 1),
    decay=st.sampled_from(["linear", "cosine", "constant"]),
)
def test_rates_rise_to_the_peak_and_never_again(steps, warmup, low, decay) -> None:
    schedule = Schedule(warmup=warmup, decay=decay, min_ratio=low)
    values, top = rates(schedule, steps), schedule.warmup_steps(steps)
    assert all(0 <= value <= 1 + 1e-12 for value in values)
    assert values[:top] == sorted(values[:top])
    assert all(a >= b - 1e-12 for a, b in zip(values[top:], values[top + 1 :], strict=False))
    if top:
        assert values[top - 1] == 1
    if top < steps and decay != "constant":
        assert values[-1] == pytest.approx(low)


@pytest.mark.parametrize("wrong", [{"warmup": -1}, {"warmup": 1.5}, {"decay": "linar"}, {"min_ratio": 2}])
def test_wrong_schedules_are_refused(wrong: dict) -> None:
    with pytest.raises(RecipeError, match=f"schedule.{next(iter(wrong))}"):
        Schedule(**wrong)


@pytest.mark.parametrize("wrong", [{"lr": 0}, {"betas": (0.9, 1.0)}, {"eps": 0}, {"weight_decay": -1}])
def test_wrong_optimisers_are_refused(wrong: dict) -> None:
    with pytest.raises(RecipeError, match=f"optimizer.{next(iter(wrong))}"):
        AdamW(**wrong)


def test_norms_and_biases_are_not_decayed_and_everything_else_is() -> None:
    objective = small_objective()
    decayed, free = parameter_groups(objective)
    assert decayed.keys() | free.keys() == dict(objective.named_parameters()).keys()
    assert not decayed.keys() & free.keys()
    assert "backbone.embedding.weight" in decayed
    assert "heads.loss.bias" in free
    for name in free:
        assert "norm" in name or name.endswith("bias"), name
    for name in decayed:
        assert "norm" not in name, name
        assert not name.endswith("bias"), name


def test_decay_reaches_only_its_group() -> None:
    objective = small_objective()
    with torch.no_grad():
        objective.heads["loss"].bias.fill_(1.0)
    before = {name: parameter.detach().clone() for name, parameter in objective.named_parameters()}
    optimizer = AdamW(lr=0.1, weight_decay=0.5).build(objective)
    for parameter in objective.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    decayed, _ = parameter_groups(objective)
    for name, parameter in objective.named_parameters():
        expected = before[name] * (1 - 0.1 * 0.5) if name in decayed else before[name]
        torch.testing.assert_close(parameter.detach(), expected)


def test_fused_equals_plain() -> None:
    results = []
    for fused in (True, False):
        objective = small_objective()
        optimizer = AdamW(fused=fused).build(objective)
        generator = torch.Generator().manual_seed(0)
        for _ in range(3):
            for parameter in objective.parameters():
                parameter.grad = torch.randn(parameter.shape, generator=generator)
            optimizer.step()
        results.append(objective.state_dict())
    torch.testing.assert_close(results[0], results[1])
