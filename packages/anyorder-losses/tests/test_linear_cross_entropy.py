"""The cross entropy that multiplies its gradients out at once, against its twin by autograd."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from anyorder.core import Readout
from anyorder.losses import CrossEntropy

VOCAB, WIDTH = 37, 8


def readout(*, rows: int = 3, places: int = 5) -> Readout:
    generator = torch.Generator().manual_seed(0)
    weight = torch.rand(rows, places, generator=generator) * 2
    weight[:, -1] = 0.0
    return Readout(
        stream="query",
        index=torch.zeros(rows, places, dtype=torch.long),
        labels=torch.randint(VOCAB, (rows, places), generator=generator),
        weight=weight,
    )


def run(
    at_once: int | None, read: Readout, *, dtype: torch.dtype = torch.float64, poison: bool = False, **arguments: Any
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Loss, losses of targets that count, and gradients, all of weights that do not depend on ``at_once``."""
    torch.manual_seed(1)
    head = CrossEntropy(vocab_size=VOCAB, logits_at_once=at_once, **arguments).to(dtype)
    torch.nn.init.normal_(head.bias)
    embedding = torch.randn(VOCAB, WIDTH, dtype=dtype, requires_grad=True)
    start = torch.randn(*read.labels.shape, WIDTH, dtype=dtype)
    if poison:
        start[:, -1] = torch.nan
    hidden = start.requires_grad_()
    out = head(hidden, read, embedding=embedding)
    (out.loss_sum / 7).backward()
    assert out.per_target is not None
    assert head.bias.grad is not None
    assert hidden.grad is not None
    assert embedding.grad is not None
    gradients = {"hidden": hidden.grad, "embedding": embedding.grad, "bias": head.bias.grad}
    return out.loss_sum.detach(), out.per_target[read.weight > 0], gradients


@pytest.mark.parametrize("at_once", [1, VOCAB * 4, 1 << 20], ids=["one", "four", "all"])
@pytest.mark.parametrize(
    "arguments", [{}, {"label_smoothing": 0.1}, {"z_loss": 0.01}, {"label_smoothing": 0.3, "z_loss": 0.1}], ids=str
)
def test_it_equals_its_twin(at_once: int, arguments: dict[str, float]) -> None:
    mine, twin = run(at_once, readout(), **arguments), run(None, readout(), **arguments)
    torch.testing.assert_close(mine, twin, rtol=1e-12, atol=1e-12)


def test_predictions_of_weight_zero_add_nothing_even_where_not_finite() -> None:
    _, _, clean = run(VOCAB * 4, readout())
    _, _, poisoned = run(VOCAB * 4, readout(), poison=True)
    torch.testing.assert_close(poisoned, clean, rtol=0, atol=0)


def test_no_prediction_gives_zero_and_zero_gradients() -> None:
    loss, _, gradients = run(VOCAB, readout(places=1).map(lambda tensor: tensor[:, :0]))
    assert loss == 0
    assert all(torch.equal(gradient, torch.zeros_like(gradient)) for gradient in gradients.values())


@pytest.mark.parametrize("at_once", [VOCAB * 4, 1 << 20])
def test_half_precision_sums_as_well_as_autograd_does(at_once: int) -> None:
    exact = run(None, readout(), dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mine, twin = (run(size, readout(), dtype=torch.float32) for size in (at_once, None))
    for name, gradient in exact[2].items():
        far = (twin[2][name] - gradient).norm()
        assert far > 0, "autocast was on"
        assert (mine[2][name] - gradient).norm() <= 1.5 * far, name


def test_what_is_frozen_gets_no_gradient() -> None:
    read = readout()
    head = CrossEntropy(vocab_size=VOCAB).requires_grad_(False)
    hidden = torch.randn(*read.labels.shape, WIDTH, requires_grad=True)
    embedding = torch.randn(VOCAB, WIDTH)
    head(hidden, read, embedding=embedding).loss_sum.backward()
    assert hidden.grad is not None
    assert head.bias.grad is None
    assert embedding.grad is None


def test_a_second_backward_pass_is_refused_rather_than_wrong() -> None:
    read = readout()
    head = CrossEntropy(vocab_size=VOCAB)
    hidden = torch.randn(*read.labels.shape, WIDTH, requires_grad=True)
    loss = head(hidden, read, embedding=torch.randn(VOCAB, WIDTH)).loss_sum
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="once"):
        loss.backward()


class Largest(TorchDispatchMode):
    """Notes the largest tensor that any operator makes."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, Tensor):
                self.elements = max(self.elements, leaf.numel())
        return out


@pytest.mark.parametrize("gradients", [True, False])
def test_no_more_logits_than_allowed_exist_at_once(gradients: bool) -> None:
    read = readout(rows=8, places=40)
    largest = {}
    for at_once in (VOCAB * 16, None):
        head = CrossEntropy(vocab_size=VOCAB, logits_at_once=at_once)
        hidden = torch.randn(*read.labels.shape, 2, requires_grad=True)
        embedding = torch.randn(VOCAB, 2, requires_grad=True)
        with torch.set_grad_enabled(gradients), Largest() as seen:
            loss = head(hidden, read, embedding=embedding).loss_sum
            if gradients:
                loss.backward()
        largest[at_once] = seen.elements
    assert largest[VOCAB * 16] <= max(VOCAB * 16, hidden.numel()) < largest[None] == VOCAB * 320
