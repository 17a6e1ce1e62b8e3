"""Scores of a plan: what a model's own masks and head say of its targets, checked before it is believed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from anyorder.core import AnyorderError, Draws, LossHead, Plan, Readout, Streams, TensorStruct, TokenBatch
from anyorder.core.testing import AuditedSegment, find_leaks

from ..objective import Objective

__all__ = ["UnscorableError", "evaluating", "score_tokens"]

HEAD = "loss"
"""Name of the head that predicts an objective's own targets."""

Rows = TypeVar("Rows", bound=TensorStruct)

_LOGITS = 2**24
_ROWS = 32


class UnscorableError(Exception):
    """A model cannot be asked this: its parts do not express the plan. The message says which does not, and why."""


@contextmanager
def evaluating(objective: Objective) -> Iterator[None]:
    """No dropout, no gradients; as before afterwards."""
    training = objective.training
    objective.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        objective.train(training)


def score_tokens(objective: Objective, batch: TokenBatch, plan: Plan, *, audit: bool = True) -> Float[Tensor, "B L"]:
    """The negative log-likelihood of every target, in nats times its weight in the plan, 0 at other tokens.

    Rows are independent and remember nothing. Heads that ride along are left out: windows have no labels for them.

    Args:
        objective: a model in evaluation mode.
        batch, plan: on the CPU.
        audit: prove on the first rows, from the streams alone, that no target can reach its own prediction.

    Raises:
        UnscorableError: the masks give no prediction of some target, or one that its own token can reach, or the
            head does not score tokens.
    """
    places = max(1, int(plan.target.sum(dim=1).max()))
    rows = max(1, min(_ROWS, _LOGITS // (places * objective.vocab.size)))
    scored = []
    for start in range(0, batch.rows, rows):
        part = slice(start, start + rows)
        here, follow = _rows_of(batch, part), _rows_of(plan, part)
        scored.append(_score(objective, here, follow, num_targets=places, audit=audit and start == 0))
    return torch.cat(scored)


def _score(objective: Objective, batch: TokenBatch, plan: Plan, *, num_targets: int, audit: bool) -> Tensor:
    streams = _build(objective, batch, plan, num_targets=num_targets)
    if audit:
        few = slice(0, 2)
        _audit(objective, _rows_of(batch, few), _rows_of(plan, few), num_targets=num_targets)
    head: LossHead = objective.heads[HEAD]  # type: ignore[assignment]
    readout = head.readout(batch, streams)
    row, place = plan.target.nonzero(as_tuple=True)
    number = (plan.target.long().cumsum(dim=1) - 1)[row, place]  # a row's p-th prediction is of its p-th target
    if len(number) and readout.labels.shape[1] <= int(number.max()):
        raise UnscorableError("its head predicts fewer tokens than the plan has targets")
    if not torch.equal(readout.labels[row, number], batch.ids[row, place]):
        raise UnscorableError("its head does not predict the tokens that were hidden")
    weight = plan.weight[row, place]
    unread = (readout.weight[row, number] == 0) & (weight != 0)
    if bool(unread.any()):
        first = int(unread.nonzero()[0])
        raise UnscorableError(f"its masks give no prediction of the token at position {int(place[first])}")

    used = torch.zeros_like(readout.weight, dtype=torch.bool)
    used[row, number] = weight != 0
    kept = (~used).long().argsort(dim=1, stable=True)[:, : max(1, int(used.sum(dim=1).max()))]  # [B, P'], used first
    index, labels, weights = (part.gather(1, kept) for part in (readout.index, readout.labels, readout.weight))
    readout = Readout(stream=readout.stream, index=index, labels=labels, weight=weights)
    device = objective.embedding.device
    streams = replace(streams, readouts={HEAD: readout}).to(device)
    output = objective.states(streams, None)
    readout = streams.readouts[HEAD]
    loss = head(readout.gather(output.stream(readout.stream)), readout, embedding=objective.embedding)
    if loss.per_target is None:
        raise UnscorableError("its head reports no loss of single targets (LossOutput.per_target)")
    found = torch.zeros(used.shape, dtype=torch.float64).scatter(1, kept, loss.per_target.cpu().double())
    nats = torch.zeros(batch.ids.shape, dtype=torch.float64)
    nats[row, place] = torch.where(weight != 0, found[row, number] * weight.double(), 0.0)
    return nats


def _rows_of(value: Rows, part: slice) -> Rows:
    return value.map(lambda tensor: tensor[part])


def _build(objective: Objective, batch: TokenBatch, plan: Plan, *, num_targets: int) -> Streams:
    draws = Draws(0, rows=batch.rows, purpose="masks")
    masks = objective.masks.scoring()
    try:
        return masks.build(batch, plan, vocab=objective.vocab, num_targets=num_targets, generator=draws)
    except AnyorderError as error:
        raise UnscorableError(f"its masks refuse the question: {error}") from error


def _audit(objective: Objective, batch: TokenBatch, plan: Plan, *, num_targets: int) -> None:
    """Raise where a target's token can reach its own prediction, or that of a target before it."""
    vocab = objective.vocab
    plain = next(number for number in range(vocab.size) if number not in vocab.control)
    control = torch.isin(batch.ids, torch.tensor(vocab.control))  # a token that is itself [MASK] would look unhidden
    batch = replace(batch, ids=batch.ids.masked_fill(control & plan.target, plain))
    streams = _build(objective, batch, plan, num_targets=num_targets)
    leaks = find_leaks([AuditedSegment.of(batch, plan, streams)])
    if leaks:
        raise UnscorableError(f"its masks let a hidden token be seen where it is predicted: {leaks[0]}")
