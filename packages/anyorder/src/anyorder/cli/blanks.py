"""Filling blanks in a text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from anyorder.core import CONSECUTIVE, ONE_SHOT, DataError, IncompatiblePartsError, Plan, TokenBatch
from anyorder.data import Tokenizer
from anyorder.train.objective import Objective
from anyorder.train.predictions import log_probabilities, streams_to_score
from anyorder.train.yardsticks import evaluating

from .open_model import OpenModel

BLANK = "<mask>"
_MARKS = re.compile(r"<mask>|<eop>")
_SPACE = "▁"


@dataclass(frozen=True, kw_only=True)
class Filled:
    """Guesses at the blanks of a text.

    Attributes:
        blanks: for each blank the likeliest pieces, every blank unknown, with log-probabilities in nats.
        joint: the likeliest fillings of all blanks by the chain rule, with the filled text.
    """

    blanks: tuple[tuple[tuple[str, float], ...], ...]
    joint: tuple[tuple[str, tuple[str, ...], float], ...]


def fill(model: OpenModel, text: str, *, top: int = 5, beam: int = 32, context: str = "") -> Filled:
    """Fill every ``<mask>`` of a text with one piece.

    The joint probability is by the chain rule, blanks from left to right, each given the text and the blanks before
    it; the fillings are found by a beam search.

    Raises:
        DataError: the text has no blank.
        IncompatiblePartsError: the model only reads left to right, or its head has no scores of pieces.
    """
    objective, tokenizer = model.objective, model.tokenizer
    if CONSECUTIVE in objective.masks.scoring().needs:
        raise IncompatiblePartsError("the model reads from left to right alone, and a blank is known by both its sides")
    if not hasattr(objective.heads["loss"], "logits"):
        raise IncompatiblePartsError("the model's head has no scores of pieces to choose from")
    ids, blanks, fits = encode_blanks(tokenizer, text)
    if not blanks:
        raise DataError(f"the text has no blank: write {BLANK} where a piece is to be filled in")
    given = [tokenizer.vocab.eod, *(tokenizer.encode(context) if context else [])]
    row = torch.tensor(given + ids)
    places = [len(given) + place for place in blanks]
    allowed = [_allowed(model, starts_word=fit) for fit in fits]
    with evaluating(objective):
        alone = _log_probabilities(objective, row[None], _plan(row[None], places, together=True))[0]
        best = [_top(scores, top, pieces) for scores, pieces in zip(alone, allowed, strict=True)]
        beams = _search(objective, row, places, allowed, width=max(beam, top))
    pieces = tokenizer.all_pieces
    joint = []
    for chosen, score in beams[:top]:
        filled = list(ids)
        for place, number in zip(blanks, chosen, strict=True):
            filled[place] = number
        joint.append((tokenizer.decode(filled), tuple(pieces[number] for number in chosen), score))
    named = tuple(tuple((pieces[number], score) for number, score in found) for found in best)
    return Filled(blanks=named, joint=tuple(joint))


def encode_blanks(tokenizer: Tokenizer, text: str) -> tuple[list[int], list[int], list[bool]]:
    """Ids of a text, the places of its blanks, which hold the mask's id, and whether a word begins at each.

    Blanks are encoded as ``<eop>``, which SentencePiece never joins with its neighbours: what follows a blank without a
    space is then cut as if a word stood there.
    """
    marks = _MARKS.findall(text)
    ids = tokenizer.encode(text.replace(BLANK, "<eop>"))
    found, vocab, space = (
        [],
        tokenizer.vocab,
        tokenizer.all_pieces.index(_SPACE) if _SPACE in tokenizer.all_pieces else -1,
    )
    row: list[int] = []
    begins: list[bool] = []
    seen = 0
    for number in ids:
        if number != vocab.eop:
            row.append(number)
            continue
        if seen < len(marks) and marks[seen] == BLANK:
            begins.append(bool(row) and row[-1] == space)
            if begins[-1]:
                row.pop()  # the space belongs to the piece that is looked for
            found.append(len(row))
            row.append(vocab.mask)
        else:
            row.append(number)
        seen += 1
    if seen != len(marks):
        raise DataError("the tokenizer does not know <eop> as a symbol of its own, by which blanks are found in a text")
    return row, found, begins


def _plan(rows: Tensor, places: Sequence[int], *, together: bool, start: int = 0) -> Plan:
    """Blanks from ``start`` on are targets, all else is given; together, or one after another from left to right."""
    time = torch.zeros_like(rows)
    for number, place in enumerate(places[start:], start=1):
        time[:, place] = 1 if together else number
    return Plan.of(time, time > 0)


def _log_probabilities(objective: Objective, rows: Tensor, plan: Plan) -> Tensor:
    """``[B, P, V]``, in nats, of the targets of a plan in order of position."""
    streams = streams_to_score(objective, TokenBatch.of(rows), plan, num_targets=int(plan.target.sum(dim=1).max()))
    return log_probabilities(objective, streams, objective.backbone(streams, None))


def _search(
    objective: Objective, row: Tensor, places: Sequence[int], allowed: Sequence[Tensor], *, width: int
) -> list[tuple[tuple[int, ...], float]]:
    """The likeliest fillings of all blanks."""
    beams: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    one_shot = ONE_SHOT in objective.masks.scoring().needs
    for step in range(len(places)):
        rows = row.repeat(len(beams), 1)
        for number, (chosen, _) in enumerate(beams):
            rows[number, list(places[:step])] = torch.tensor(chosen, dtype=rows.dtype)
        # A model that predicts all at once takes what is filled as given; one with an order has it as earlier targets.
        plan = _plan(rows, places, together=one_shot, start=step if one_shot else 0)
        scores = _log_probabilities(objective, rows, plan)[:, 0 if one_shot else step]
        grown = [
            ((*chosen, piece), total + score)
            for (chosen, total), found in zip(beams, scores, strict=True)
            for piece, score in _top(found, width, allowed[step])
        ]
        beams = sorted(grown, key=lambda beam: -beam[1])[:width]
    return beams


def _allowed(model: OpenModel, *, starts_word: bool) -> Tensor:
    """``[V]``: pieces that can stand in a blank: text, beginning a word where there is a space before it."""
    fits = [piece.startswith(_SPACE) == starts_word and piece != _SPACE for piece in model.tokenizer.all_pieces]
    fits += [False] * (model.objective.vocab.size - len(fits))
    for number in (*model.objective.vocab.control, model.objective.vocab.eod, model.objective.vocab.eop):
        fits[number] = False
    return torch.tensor(fits)


def _top(scores: Tensor, count: int, allowed: Tensor) -> list[tuple[int, float]]:
    """The likeliest allowed pieces; log-probabilities are over the whole vocabulary."""
    best = scores.masked_fill(~allowed, -torch.inf).topk(min(count, int(allowed.sum())))
    return [(int(number), float(score)) for number, score in zip(best.indices, best.values, strict=True)]
