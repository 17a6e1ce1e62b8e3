"""Cross entropy of a linear layer over a large vocabulary, a few predictions at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

__all__ = ["Smoothing", "linear_cross_entropy", "token_losses"]


@dataclass(frozen=True)
class Smoothing:
    """The regularisers of a token's loss; see ``CrossEntropy``."""

    label_smoothing: float = 0.0
    z_loss: float = 0.0


def token_losses(
    logits: Float[Tensor, "N V"], labels: Int[Tensor, " N"], smoothing: Smoothing = Smoothing()
) -> Float[Tensor, " N"]:
    """``-log softmax(logits)[label]`` in nats, with the regularisers; half precision is widened first."""
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    losses = torch.nn.functional.cross_entropy(
        logits, labels, reduction="none", label_smoothing=smoothing.label_smoothing
    )
    if smoothing.z_loss:
        losses = losses + smoothing.z_loss * logits.logsumexp(dim=-1) ** 2
    return losses


def linear_cross_entropy(
    hidden: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"],
    labels: Int[Tensor, " N"],
    scale: Float[Tensor, " N"],
    *,
    smoothing: Smoothing = Smoothing(),
    logits_at_once: int,
) -> tuple[Float[Tensor, ""], Float[Tensor, " N"]]:
    """``sum_i scale_i * token_losses(hidden_i weight^T + bias)``, and the losses themselves, without gradient.

    Of the logits, ``logits_at_once`` exist at a time. The gradient of a loss at its logits, ``softmax - onehot``, is
    at hand as soon as they are: it is multiplied out at once, so that nothing of the size ``[N, V]`` is kept or
    computed again for the backward pass, which only multiplies by the gradient of the sum. It takes no gradient of
    ``scale``, works once, and ignores predictions of scale 0 even where their hidden state is not finite.
    """
    if torch.is_autocast_enabled(hidden.device.type):
        dtype = torch.get_autocast_dtype(hidden.device.type)
    else:
        dtype = hidden.dtype
    counted = hidden.masked_fill((scale == 0)[:, None], 0.0)
    total, losses = _LinearCrossEntropy.apply(  # type: ignore[no-untyped-call]
        counted, weight, bias, labels, scale, smoothing, max(1, logits_at_once // weight.shape[0]), dtype
    )
    return total, losses


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        labels: Tensor,
        scale: Tensor,
        smoothing: Smoothing,
        chunk: int,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        with torch.autocast(hidden.device.type, enabled=False):
            narrow = hidden.to(dtype), weight.to(dtype), bias.to(dtype)
            losses = hidden.new_empty(labels.shape, dtype=torch.promote_types(dtype, torch.float32))
            scale = scale.to(losses.dtype)
            gradients = _Gradients.of(hidden, weight, bias, needed=ctx.needs_input_grad)
            for part in _parts(len(labels), chunk):
                logits = linear(narrow[0][part], narrow[1], narrow[2]).to(losses.dtype)
                losses[part] = _to_gradient(logits, labels[part], smoothing)
                gradients.add(part, logits, narrow[0][part], narrow[1], scale[part])
        ctx.gradients = gradients
        ctx.mark_non_differentiable(losses)
        return (losses * scale).sum(), losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.gradients is None:
            raise RuntimeError("the gradients of linear_cross_entropy were given away: it works backward once")
        gradients, ctx.gradients = ctx.gradients, None
        return (*gradients.times(gradient), None, None, None, None, None)


def _parts(count: int, size: int) -> Iterator[slice]:
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def _to_gradient(logits: Tensor, labels: Tensor, smoothing: Smoothing) -> Tensor:
    """Losses of some logits; the logits become the gradients of these losses, in place."""
    vocab, (epsilon, z) = logits.shape[-1], (smoothing.label_smoothing, smoothing.z_loss)
    label = labels[:, None]
    picked = logits.gather(1, label)
    mean = logits.mean(dim=-1) if epsilon else torch.zeros((), dtype=logits.dtype, device=logits.device)
    log_p = torch.log_softmax(logits, dim=-1)
    normaliser = (picked - log_p.gather(1, label))[:, 0]  # log of the sum of exponentials
    losses = normaliser - (1 - epsilon) * picked[:, 0] - epsilon * mean + z * normaliser**2
    torch.exp(log_p, out=logits)
    if z:
        logits.mul_((1 + 2 * z * normaliser)[:, None])
    if epsilon:
        logits.sub_(epsilon / vocab)
    logits.scatter_add_(1, label, torch.full_like(picked, epsilon - 1))
    return losses


@dataclass
class _Gradients:
    """Gradients of the scaled sum, None where nobody asks."""

    hidden: Tensor | None
    weight: Tensor | None
    bias: Tensor | None
    dtypes: tuple[torch.dtype, torch.dtype, torch.dtype]
    begun: bool = False

    @classmethod
    def of(cls, hidden: Tensor, weight: Tensor, bias: Tensor, *, needed: tuple[bool, ...]) -> _Gradients:
        """Half precision is summed over the parts in float32."""

        def room(tensor: Tensor, wanted: bool) -> Tensor | None:
            return torch.empty_like(tensor, dtype=torch.promote_types(tensor.dtype, torch.float32)) if wanted else None

        return cls(
            hidden=room(hidden, needed[0]),
            weight=room(weight, needed[1]),
            bias=room(bias, needed[2]),
            dtypes=(hidden.dtype, weight.dtype, bias.dtype),
        )

    def add(self, part: slice, logits: Tensor, hidden: Tensor, weight: Tensor, scale: Tensor) -> None:
        """Add a part's: ``logits`` hold ``d loss / d logits``. The scale goes to the smaller factor of each product."""
        narrow, beta = logits.to(hidden.dtype), float(self.begun)
        if self.hidden is not None:
            self.hidden[part] = (narrow @ weight).to(self.hidden.dtype) * scale[:, None]
        scaled = hidden * scale[:, None].to(hidden.dtype)
        if self.weight is not None:
            if self.weight.dtype == narrow.dtype:
                torch.addmm(self.weight, narrow.T, scaled, beta=beta, out=self.weight)
            elif self.begun:
                self.weight += narrow.T @ scaled
            else:
                self.weight.copy_(narrow.T @ scaled)
        if self.bias is not None:
            torch.addmv(self.bias, logits.T, scale, beta=beta, out=self.bias)
        self.begun = True

    def times(self, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """In place, since they are given away. Without any prediction nothing was written: zeros."""

        def take(tensor: Tensor | None, dtype: torch.dtype) -> Tensor | None:
            if tensor is None:
                return None
            return (tensor.mul_(gradient) if self.begun else tensor.zero_()).to(dtype)

        parts = (self.hidden, self.weight, self.bias)
        return tuple(take(tensor, dtype) for tensor, dtype in zip(parts, self.dtypes, strict=True))
