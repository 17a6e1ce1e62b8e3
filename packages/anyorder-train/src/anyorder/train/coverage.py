"""Which conditionals an objective trains: what each prediction may know, counted (XLNet, section 2.6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import torch
from jaxtyping import Bool
from torch import Tensor

from anyorder.core import TARGETS, Plan, Streams, TokenBatch, Visibility

__all__ = ["Conditional", "Coverage", "conditionals", "count_coverage"]


@dataclass(frozen=True)
class Conditional:
    """One prediction: ``log p(x_target | x_known)``, and which of what is known are targets too."""

    row: int
    target: int
    known: frozenset[int]
    known_targets: frozenset[int]


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """What some draws of an objective over the same rows condition on.

    A prediction of ``x`` from a set ``K`` covers the dependency between ``x`` and any ``U`` within ``K`` (the paper's
    words for what an objective can learn), so it covers ``2 ** len(K)`` of them. A denoising auto-encoder with the
    same targets knows no target, which leaves ``K`` without them.

    Attributes:
        predictions: in all draws.
        distinct: different conditionals ``(row, target, K)`` among them.
        known: tokens known, summed over predictions; ``known_targets`` those of them that are predicted themselves.
        pairs: different pairs of a target and one known token.
        covered: dependencies covered, summed over predictions; ``covered_at_once`` what the same targets predicted at
            once would cover.
    """

    predictions: int
    distinct: int
    known: int
    known_targets: int
    pairs: int
    covered: int
    covered_at_once: int

    @property
    def gain(self) -> Fraction:
        """Dependencies covered for each that simultaneous predictions of the same targets cover."""
        return Fraction(self.covered, self.covered_at_once) if self.covered_at_once else Fraction(1)


def conditionals(batch: TokenBatch, plan: Plan, streams: Streams) -> Iterator[Conditional]:
    """What every prediction of one segment may know of the segment, through any number of layers.

    A slot knows a token where its input id is still the token's own, or where it may attend to a slot that knows it.
    What memory keeps is left out. Predictions of weight 0 are none.
    """
    readout = streams.readouts[TARGETS]
    content = streams.content
    reach = _shown(streams, batch)  # [B, K, L]
    sees = Visibility.of(content, content).dense()
    while True:  # a round a layer, until another layer adds nothing
        further = reach | _any_product(sees, reach)
        if torch.equal(further, reach):
            break
        reach = further
    if readout.stream == "query":
        assert streams.query is not None, "the readout reads a query stream"
        reach = _any_product(Visibility.of(streams.query, content).dense(), reach)
    known = reach.gather(1, readout.index[..., None].expand(-1, -1, batch.length))  # [B, P, L]
    rank = plan.target.long().cumsum(dim=1)
    for row, number in (readout.weight != 0).nonzero().tolist():
        place = int((plan.target[row] & (rank[row] == number + 1)).nonzero())
        if known[row, number, place]:
            continue  # revealed by design, as BERT's kept tenth is: no conditional of the token
        found = frozenset(known[row, number].nonzero().flatten().tolist())
        targets = frozenset((known[row, number] & plan.target[row]).nonzero().flatten().tolist())
        yield Conditional(row=row, target=place, known=found, known_targets=targets)


def count_coverage(found: Iterable[Conditional]) -> Coverage:
    """Add up conditionals, of as many draws as there are."""
    predictions = known = known_targets = covered = covered_at_once = 0
    distinct: set[tuple[int, int, frozenset[int]]] = set()
    pairs: set[tuple[int, int, int]] = set()
    for one in found:
        predictions += 1
        known += len(one.known)
        known_targets += len(one.known_targets)
        covered += 2 ** len(one.known)
        covered_at_once += 2 ** len(one.known - one.known_targets)
        distinct.add((one.row, one.target, one.known))
        pairs.update((one.row, one.target, other) for other in one.known)
    return Coverage(
        predictions=predictions,
        distinct=len(distinct),
        known=known,
        known_targets=known_targets,
        pairs=len(pairs),
        covered=covered,
        covered_at_once=covered_at_once,
    )


def _shown(streams: Streams, batch: TokenBatch) -> Bool[Tensor, "B K L"]:
    """Whose token the input of each content slot is."""
    content = streams.content
    inside = (content.position >= 0) & (content.position < batch.length) & (content.doc >= 0)
    place = content.position.clamp(0, batch.length - 1)
    shown = inside & (content.ids == batch.ids.gather(1, place))
    own = torch.zeros(*content.ids.shape, batch.length, dtype=torch.bool)
    return own.scatter_(2, place[..., None], shown[..., None])


def _any_product(left: Bool[Tensor, "B Q K"], right: Bool[Tensor, "B K L"]) -> Bool[Tensor, "B Q L"]:
    found: Bool[Tensor, "B Q L"] = (left.float() @ right.float()) > 0
    return found
