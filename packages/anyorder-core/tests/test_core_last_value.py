"""What is remembered is never stale."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from anyorder.core import LastValue


class Counted:
    """A product that counts how often it is computed."""

    def __init__(self) -> None:
        self.last, self.calls = LastValue(), 0

    def __call__(self, x: Tensor, weight: Tensor, *more: int) -> Tensor:
        def compute() -> Tensor:
            self.calls += 1
            return x @ weight

        return self.last.of(compute, x, weight, *more)


@pytest.fixture
def x() -> Tensor:
    return torch.randn(3, 4)


@pytest.fixture
def weight() -> nn.Parameter:
    return nn.Parameter(torch.randn(4, 4))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_the_same_inputs_are_computed_once(
    x: Tensor, weight: nn.Parameter, mode: Callable[[], torch.no_grad | torch.inference_mode]
) -> None:
    product = Counted()
    with mode():
        first, second = product(x, weight), product(x, weight)
    assert product.calls == 1
    assert torch.equal(first, second)


def test_with_gradients_nothing_is_remembered(x: Tensor, weight: nn.Parameter) -> None:
    product = Counted()
    with torch.no_grad():
        product(x, weight)
    for _ in range(2):
        product(x, weight).sum().backward()
    assert product.calls == 3
    with torch.no_grad():
        product(x, weight)
    assert product.calls == 4


def changed_by_optimizer(weight: nn.Parameter) -> None:
    weight.grad = torch.ones_like(weight)
    torch.optim.AdamW([weight], lr=0.1, fused=True).step()


def changed_by_loading(weight: nn.Parameter) -> None:
    holder = nn.Module()
    holder.weight = weight
    holder.load_state_dict({"weight": torch.zeros_like(weight)})


def changed_behind_autograd(weight: nn.Parameter) -> None:
    weight.data = torch.zeros_like(weight)


@pytest.mark.parametrize("change", [changed_by_optimizer, changed_by_loading, changed_behind_autograd])
def test_a_changed_weight_is_seen(x: Tensor, weight: nn.Parameter, change: Callable[[nn.Parameter], None]) -> None:
    product = Counted()
    with torch.no_grad():
        product(x, weight)
    change(weight)
    with torch.no_grad():
        assert torch.equal(product(x, weight), x @ weight)


def test_another_number_or_another_tensor_is_another_input(x: Tensor, weight: nn.Parameter) -> None:
    product = Counted()
    with torch.no_grad():
        product(x, weight, 1)
        product(x, weight, 2)
        product(x.clone(), weight, 2)
    assert product.calls == 3


def test_autocast_gives_a_value_of_its_own(x: Tensor, weight: nn.Parameter) -> None:
    product = Counted()
    with torch.no_grad():
        wide = product(x, weight)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            narrow = product(x, weight)
    assert (wide.dtype, narrow.dtype) == (torch.float32, torch.bfloat16)
