"""Ways to put one question to models that read differently, chosen by traits and never by class."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from anyorder.core import AnyorderError, Draws, Plan, TokenBatch

from ..objective import Objective
from .scoring import score_tokens
from .yardstick import Standing

__all__ = ["Way", "choose_way", "orders_its_context", "standing_of"]

Planner = Callable[[TokenBatch, Bool[Tensor, "B L"], Draws | None], list[Plan]]
"""``(windows, hidden, context) -> plans``; ``context`` draws an order of the rest for models trained with one."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to ask about hidden tokens.

    Attributes:
        traits: what its plans promise a mask builder (``MaskBuilder.needs``).
        sees: what the model could see, for the report.
        plans: makes the plans; a token's score is the sum over them.
        merges: what a prediction sees does not depend on which tokens are hidden, so one pass answers for many choices.
        note: what to bear in mind about a number got this way.
    """

    traits: frozenset[str]
    sees: str
    plans: Planner
    merges: bool = False
    note: str = ""

    def score(
        self,
        objective: Objective,
        windows: TokenBatch,
        hidden: Bool[Tensor, "N S L"],
        *,
        context_seed: int | None = None,
    ) -> Float[Tensor, "N S"]:
        """Nats of ``S`` choices of hidden tokens in every window, in evaluation mode.

        Args:
            objective: the model.
            windows: on the CPU.
            hidden: choices; an empty one scores 0.
            context_seed: draws an order of the rest for each choice; None leaves it unordered.

        Raises:
            UnscorableError: the model's parts do not express the plans after all.
        """
        if self.merges:
            nats = self._sum_of_plans(objective, windows, hidden.any(dim=1), context=None)
            return (nats[:, None] * hidden).sum(dim=2)
        rows, choices = hidden.shape[:2]
        scores = torch.zeros(rows, choices, dtype=torch.float64)
        row, choice = hidden.any(dim=2).nonzero(as_tuple=True)
        if len(row):
            context = None
            if context_seed is not None:
                context = Draws(context_seed, rows=row * choices + choice, purpose="context")
            repeated = windows.map(lambda t: t[row])
            nats = self._sum_of_plans(objective, repeated, hidden[row, choice], context=context)
            scores[row, choice] = nats.sum(dim=1)
        return scores

    def _sum_of_plans(
        self, objective: Objective, batch: TokenBatch, hidden: Bool[Tensor, "B L"], *, context: Draws | None
    ) -> Float[Tensor, "B L"]:
        total = torch.zeros(batch.ids.shape, dtype=torch.float64)
        for plan in self.plans(batch, hidden, context):
            total += score_tokens(objective, batch, plan.within_blocks(batch))
        return total


def choose_way(objective: Objective, ways: Sequence[Way]) -> Way | None:
    """The first way that the model's masks can read, one that its order makes in training before others."""
    able = [way for way in ways if objective.masks.scoring().needs <= way.traits]
    trained = [way for way in able if way.traits & objective.order.traits]
    return next(iter(trained + able), None)


def standing_of(objective: Objective, ways: Sequence[Way], *, otherwise: Mapping[str, str]) -> Standing:
    """What a yardstick with these ways is for a model.

    Args:
        objective: the model.
        ways: the yardstick's.
        otherwise: why no way is open to masks that need a trait.
    """
    way = choose_way(objective, ways)
    if way is None:
        needs = sorted(objective.masks.scoring().needs)
        reason = next((otherwise[trait] for trait in needs if trait in otherwise), "")
        offered = sorted({trait for way in ways for trait in way.traits})
        reason = reason or (
            f"its masks need an order with trait {' and '.join(map(repr, needs))}; "
            f"this yardstick's plans offer {', '.join(map(repr, offered))}"
        )
        return Standing(kind="undefined", reason=reason)
    notes = [way.note] if way.note else []
    if not way.traits & objective.order.traits:
        notes.append("its order never makes such plans in training")
    return Standing(kind="exact", sees=way.sees, reason="; ".join(notes))


def orders_its_context(objective: Objective, windows: TokenBatch) -> bool:
    """Whether every token has a rank in training, none being given: then an unordered context would be new to it."""
    try:
        plan = objective.plan(windows.map(lambda t: t[:4]), seed=0, step=0)
    except AnyorderError:  # an order that refuses this length (a perm_size that does not divide it)
        return False
    return not bool(((plan.time == 0) & ~windows.fixed[:4]).any())
