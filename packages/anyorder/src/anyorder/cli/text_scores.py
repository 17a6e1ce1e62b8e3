"""What a model thinks of a text: its log-probability left to right, and its pseudo-log-likelihood."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from anyorder.core import CONSECUTIVE, ONE_SHOT, PERMUTATION, DataError, Plan, TokenBatch
from anyorder.train.decode import reads_in_order
from anyorder.train.objective import Objective
from anyorder.train.yardsticks import UnscorableError, evaluating, score_tokens
from anyorder.train.yardsticks.plans import left_to_right

from .open_model import OpenModel


@dataclass(frozen=True, kw_only=True)
class TextScore:
    """Bits of each token of a text.

    Attributes:
        pieces: the tokens.
        left_to_right: given all tokens to its left; None where the model assigns no such probability.
        pseudo: given all other tokens; None where it assigns none, or was not asked.
    """

    pieces: tuple[str, ...]
    left_to_right: tuple[float, ...] | None
    pseudo: tuple[float, ...] | None


def score_text(
    model: OpenModel, text: str, *, context: str = "", length: int | None = None, pseudo: bool = True
) -> TextScore:
    """Score a text.

    An end of document stands before it, or ``context`` after one: given, seen by every token and not scored. A text
    longer than a window is scored in windows that overlap by half, each new token seeing at least half a window.

    Args:
        model: whom to ask.
        text: at least one token long.
        context: given text.
        length: tokens of a window; what the model is used to by default.
        pseudo: ask for the pseudo-log-likelihood too, which takes a pass for each token.

    Raises:
        DataError: the text is empty, or the context leaves no room.
    """
    tokenizer, objective = model.tokenizer, model.objective
    ids = tokenizer.encode(text)
    if not ids:
        raise DataError("the text is empty after its clean-up, so there is nothing to score")
    given = [tokenizer.vocab.eod, *(tokenizer.encode(context) if context else [])]
    room = (length or model.length) - len(given)
    if room < 2:
        raise DataError(
            f"the context has {len(given)} tokens, which leaves no room in a window of {length or model.length}"
        )
    pieces = tuple(tokenizer.all_pieces[number] for number in ids)
    forwards: list[float] | None = []
    around: list[float] | None = [] if pseudo and _reads_both_ways(objective) else None
    if not reads_in_order(objective):
        forwards = None
    with evaluating(objective):
        for start, stop, new in _windows(len(ids), room):
            row = torch.tensor([given + ids[start:stop]])
            first = len(given) + new - start
            if forwards is not None:
                forwards += _left_to_right(objective, row, given=len(given))[first:]
            if around is not None:
                around += _one_by_one(objective, row, first=first)
    return TextScore(
        pieces=pieces,
        left_to_right=None if forwards is None else tuple(forwards),
        pseudo=None if around is None else tuple(around),
    )


def perplexity(bits: Sequence[float]) -> float:
    return math.exp2(sum(bits) / len(bits))


def _reads_both_ways(objective: Objective) -> bool:
    return objective.masks.scoring().needs <= {ONE_SHOT, PERMUTATION} and CONSECUTIVE not in objective.order.traits


def _windows(count: int, room: int) -> list[tuple[int, int, int]]:
    """``(start, stop, new)``: windows of a text, and the first token of each that is scored there."""
    step = room // 2
    windows, done = [], 0
    while done < count:
        start = max(0, done - (room - step)) if done else 0
        stop = min(count, start + room)
        windows.append((start, stop, done))
        done = stop
    return windows


def _left_to_right(objective: Objective, row: torch.Tensor, *, given: int) -> list[float]:
    batch = TokenBatch.of(row, fixed=_fixed(row, given))
    hidden = ~batch.fixed
    # An order of its own trait starts at its first token; any other may be told that some tokens are given.
    unordered = None if CONSECUTIVE in objective.masks.scoring().needs else torch.tensor([[given]])
    (plan,) = left_to_right(batch, hidden, given=unordered)
    return _bits(score_tokens(objective, batch, plan)[0])


def _one_by_one(objective: Objective, row: torch.Tensor, *, first: int) -> list[float]:
    """Each token from ``first`` on given all others: a row for each."""
    places = torch.arange(first, row.shape[1])
    hidden = torch.zeros(len(places), row.shape[1], dtype=torch.bool)
    hidden[torch.arange(len(places)), places] = True
    batch = TokenBatch.of(row.expand(len(places), -1).contiguous())
    try:
        nats = score_tokens(objective, batch, Plan.of(hidden.long(), hidden))
    except UnscorableError as error:
        raise DataError(f"the model cannot be asked for single tokens: {error}") from error
    return _bits(nats.sum(dim=1))


def _fixed(row: torch.Tensor, given: int) -> torch.Tensor:
    return (torch.arange(row.shape[1]) < given).expand_as(row)


def _bits(nats: torch.Tensor) -> list[float]:
    return [float(value) / math.log(2) for value in nats]
