"""Span recovery: a few adjacent hidden tokens, scored jointly."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from anyorder.core import ONE_SHOT, PERMUTATION, TokenBatch

from ..objective import Objective
from .cloze import LEFT_CONTEXT
from .hidden import sample_spans
from .hiding import measure_hidden
from .plans import in_turn, one_pass_each, together
from .way import Way, standing_of
from .yardstick import Measurement, Standing

__all__ = ["SpanRecovery", "SpanRecoveryStepwise"]

CHAIN = Way(
    traits=frozenset({PERMUTATION}),
    sees="both sides, and the span's earlier tokens: the chain rule, in one pass",
    plans=lambda batch, hidden, context: in_turn(batch, hidden, context=context),
)

PRODUCT = Way(
    traits=frozenset({ONE_SHOT}),
    sees="both sides, but nothing of the span: a product of independent predictions, in one pass",
    plans=lambda batch, hidden, context: together(batch, hidden),
)

STEPWISE = Way(
    traits=frozenset({ONE_SHOT}),
    sees="both sides, and the span's earlier tokens: the chain rule, one pass a token",
    plans=lambda batch, hidden, context: one_pass_each(batch, hidden),
)


@dataclass(frozen=True, kw_only=True)
class SpanRecovery:
    """``-log p(x_i .. x_{i+n-1} | what the model can see of the rest)``, in one pass, by span length ``n``.

    A permutation LM scores the span by its chain rule over the query stream, left to right inside the span; a masked
    LM as the product of its independent predictions from ``n`` ``[MASK]``s; a left-to-right LM by its left context.

    Args:
        longest: span lengths are 1 to this.
        spans: spans a window. Spans of all lengths start at the same tokens, so that like is compared with like.
    """

    longest: int = 5
    spans: int = 1

    name = "span_recovery"
    title = "Span recovery"
    says = "1 to 5 adjacent hidden tokens scored jointly, in a single pass"
    kinds = "exact for every model, as what it says of the span in one pass: a chain rule or a product"

    def defined_for(self, objective: Objective) -> Standing:
        return standing_of(objective, (CHAIN, PRODUCT, LEFT_CONTEXT), otherwise={})

    def measure(
        self, objective: Objective, windows: TokenBatch, *, piece_bytes: Int[Tensor, " V"], seed: int = 0
    ) -> Measurement:
        """Parts are the span lengths, ``"1"`` and so on; ``"all"`` pools them."""
        whole = sample_spans(windows, length=self.longest, count=self.spans, seed=seed, purpose="spans")
        found = measure_hidden(
            objective,
            windows,
            {str(length): _first(whole, length) for length in range(1, self.longest + 1)},
            yardstick=self.name,
            standing=self.defined_for(objective),
            ways=(CHAIN, PRODUCT, LEFT_CONTEXT),
            piece_bytes=torch.as_tensor(piece_bytes),
            seed=seed,
        )
        if not found.scores:
            return found
        first, *rest = found.scores.values()
        for score in rest:
            first = first + score
        return replace(found, scores={"all": first, **found.scores})


@dataclass(frozen=True, kw_only=True)
class SpanRecoveryStepwise:
    """As ``SpanRecovery`` at its longest, with as many passes as it takes: the best that each model can do.

    A masked LM then reveals the span token by token, one pass each, and so has a chain rule as well. For models that
    have it in one pass the number is that of ``SpanRecovery``.

    Args:
        length: span length.
        spans: spans a window, the same as ``SpanRecovery``'s.
    """

    length: int = 5
    spans: int = 1

    name = "span_recovery_stepwise"
    title = "Span recovery, token by token"
    says = "5 adjacent hidden tokens scored jointly, with as many passes as the model needs to use its own answers"
    kinds = "exact for every model: its chain rule over the span, after both sides or after the left one"

    def defined_for(self, objective: Objective) -> Standing:
        return standing_of(objective, (CHAIN, STEPWISE, LEFT_CONTEXT), otherwise={})

    def measure(
        self, objective: Objective, windows: TokenBatch, *, piece_bytes: Int[Tensor, " V"], seed: int = 0
    ) -> Measurement:
        return measure_hidden(
            objective,
            windows,
            {"all": sample_spans(windows, length=self.length, count=self.spans, seed=seed, purpose="spans")},
            yardstick=self.name,
            standing=self.defined_for(objective),
            ways=(CHAIN, STEPWISE, LEFT_CONTEXT),
            piece_bytes=torch.as_tensor(piece_bytes),
            seed=seed,
        )


def _first(spans: Bool[Tensor, "N S L"], length: int) -> Bool[Tensor, "N S L"]:
    """The first ``length`` tokens of every span."""
    return spans & (spans.long().cumsum(dim=2) <= length)
