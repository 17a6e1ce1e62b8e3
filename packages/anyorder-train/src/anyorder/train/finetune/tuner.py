"""The fine-tuning loop, to be read from top to bottom."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from anyorder.core import RecipeError, TokenBatch
from anyorder.data.features import Row, collate

from ..failure import NonFiniteError
from ..optimizer import AdamW
from ..schedule import Schedule
from .classifier import Classifier

__all__ = ["Labelled", "Tuner"]

_POOL = 16  # batches among which rows are sorted by length, so that little is padding


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """Encoded rows with their classes."""

    rows: Sequence[Row]
    labels: Sequence[int]

    def __len__(self) -> int:
        return len(self.rows)


class Tuner:
    """Trains a classifier. The constructor's signature is the ``train`` section of a recipe.

    Args:
        epochs: how often each example is seen.
        batch_size: examples a step.
        clip: largest global norm of the gradient; None does not clip.
        dropout: of the backbone, attention weights included.
        log_every: every how many steps to note the loss.
        device: ``cpu``, ``cuda`` or ``auto``.

    Raises:
        RecipeError: a value out of range.
    """

    def __init__(
        self,
        *,
        epochs: int = 3,
        batch_size: int = 32,
        clip: float | None = 1.0,
        dropout: float = 0.1,
        log_every: int = 50,
        device: str = "auto",
    ) -> None:
        for name, value in {"epochs": epochs, "batch_size": batch_size, "log_every": log_every}.items():
            if value < 1:
                raise RecipeError(f"{name} is {value}; it must be 1 or more", path=f"train.{name}")
        if clip is not None and not clip > 0:
            raise RecipeError(f"clip is {clip}; it must be above 0, or null for none", path="train.clip")
        if not 0 <= dropout < 1:
            raise RecipeError(f"dropout is {dropout}; it must be from 0 to under 1", path="train.dropout")
        self.epochs, self.batch_size, self.clip, self.dropout = epochs, batch_size, clip, dropout
        self.log_every, self.device = log_every, device

    def steps(self, examples: int) -> int:
        """Number of updates in all."""
        return self.epochs * math.ceil(examples / self.batch_size)

    def fit(
        self,
        model: Classifier,
        train: Labelled,
        dev: Labelled,
        *,
        optimizer: AdamW,
        schedule: Schedule,
        seed: int,
        note: Callable[[dict[str, float]], None],
    ) -> float:
        """Train, and return the accuracy on ``dev`` after the last epoch.

        Nothing is chosen by ``dev``: the weights are those of the last step, and so is the accuracy.

        Args:
            note: called with a record every ``log_every`` steps and, with ``dev/accuracy``, after each epoch.

        Raises:
            NonFiniteError: the loss or the gradient is not finite.
        """
        steps = self.steps(len(train))
        schedule.check(steps)
        updates = optimizer.build(model)
        peaks = [group["lr"] for group in updates.param_groups]
        device = next(model.parameters()).device
        accuracy, step, sums = 0.0, 0, torch.zeros(3)
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            order = torch.Generator().manual_seed(seed)
            for epoch in range(1, self.epochs + 1):
                model.train()
                for chosen in shuffled(train, self.batch_size, generator=order):
                    step += 1
                    factor = schedule.factor(step, steps=steps)
                    for group, peak in zip(updates.param_groups, peaks, strict=True):
                        group["lr"] = peak * factor
                    sums += self._update(model, updates, train, chosen, step=step)
                    if step % self.log_every == 0:
                        note({"step": step, "epoch": epoch, "lr": updates.param_groups[0]["lr"], **_means(sums)})
                        sums = torch.zeros(3)
                accuracy = self.accuracy(model, dev)
                note({"step": step, "epoch": epoch, "dev/accuracy": accuracy})
        return accuracy

    @torch.no_grad()
    def accuracy(self, model: Classifier, data: Labelled) -> float:
        """The share of examples whose likeliest class is theirs."""
        model.eval()
        right = 0
        by_length = sorted(range(len(data)), key=lambda i: sum(data.rows[i].padding))
        for start in range(0, len(data), 2 * self.batch_size):
            chosen = by_length[start : start + 2 * self.batch_size]
            batch, labels = _batch(data, chosen, next(model.parameters()).device)
            right += int((model(batch).logits.argmax(dim=-1) == labels).sum())
        return right / len(data)

    def _update(
        self, model: Classifier, updates: torch.optim.Optimizer, data: Labelled, chosen: Sequence[int], *, step: int
    ) -> Tensor:
        """One step on the chosen examples: sums of loss, right answers and examples."""
        batch, labels = _batch(data, chosen, next(model.parameters()).device)
        loss = model(batch, labels=labels).loss
        assert loss is not None
        (loss.loss_sum / loss.weight_sum).backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), self.clip or math.inf)
        sums = torch.stack([loss.loss_sum.detach(), loss.metrics["accuracy"], loss.weight_sum]).cpu()
        if not bool(torch.isfinite(sums).all() and torch.isfinite(norm)):
            raise NonFiniteError(
                f"step {step}: loss {float(sums[0] / sums[2])}, gradient norm {float(norm)}; a smaller optimizer.lr or "
                "a longer schedule.warmup helps"
            )
        updates.step()
        updates.zero_grad(set_to_none=True)
        return sums


def shuffled(data: Labelled, size: int, *, generator: torch.Generator) -> Iterator[list[int]]:
    """Every example once, in batches of rows of like length, drawn anew each time."""
    order = torch.randperm(len(data), generator=generator).tolist()
    batches = []
    for start in range(0, len(order), size * _POOL):
        pool = sorted(order[start : start + size * _POOL], key=lambda i: sum(data.rows[i].padding))
        batches += [pool[at : at + size] for at in range(0, len(pool), size)]
    for number in torch.randperm(len(batches), generator=generator).tolist():
        yield batches[number]


def _batch(data: Labelled, chosen: Sequence[int], device: torch.device) -> tuple[TokenBatch, Tensor]:
    labels = torch.tensor([data.labels[index] for index in chosen])
    return collate([data.rows[index] for index in chosen]).to(device), labels.to(device)


def _means(sums: Tensor) -> dict[str, float]:
    loss, right, count = sums.tolist()
    return {"loss": loss / count, "accuracy": right / count}
