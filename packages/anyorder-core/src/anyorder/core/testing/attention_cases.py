"""The calls that attention backends are tried with: who reads, what the scores' bias is made of, how it lies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..bias import DistanceTerm, MatchTerm, ScoreBias, ScoreTerm
from ..slots import DEATH, SPAN, Slots
from ..state import MemoryState
from ..visibility import Visibility
from .reference import reference_attention

READERS = {
    "content": frozenset[str](),
    "query": frozenset[str](),
    "expiring": frozenset({DEATH}),
    "narrow": frozenset({SPAN}),
    "backward": frozenset({SPAN}),
}
"""Kinds of readers, and the rules of visibility that each uses.

Content readers see themselves; query readers do not, so the first in the order sees nothing but memory; expiring are
content readers of keys that die; narrow ones have a limited span on both sides, backward ones on one.
"""

BIASES = ("no bias", "one table", "a table a row", "every term")
"""Kinds of biases: Transformer-XL's and XLNet's terms with distance codes for all rows or, as where rows have
directions, for each; and with them a term of the distance alone and a second of each kind."""

_FACTORS: dict[type, tuple[str, ...]] = {DistanceTerm: ("query", "codes"), MatchTerm: ("scores",)}
"""The tensors of a term that carry gradients, those that are None left out."""


@dataclass(frozen=True, kw_only=True)
class AttentionCase:
    """One call. ``leaves`` are the tensors whose gradients are compared."""

    name: str
    query: Float[Tensor, "B H Q d"]
    key: Float[Tensor, "B H K d"]
    value: Float[Tensor, "B H K d"]
    visibility: Visibility
    bias: ScoreBias | None
    scale: float = 0.3

    @property
    def leaves(self) -> list[Tensor]:
        terms = () if self.bias is None else self.bias.terms
        tables = [getattr(term, name) for term in terms for name in _factors(term)]
        return [self.query, self.key, self.value, *tables]

    @property
    def leaf_names(self) -> list[str]:
        terms = () if self.bias is None else self.bias.terms
        tables = [f"term {n}'s {name}" for n, term in enumerate(terms) for name in _factors(term)]
        return ["query", "key", "value", *tables]

    def with_leaves(self, leaves: list[Tensor]) -> AttentionCase:
        """The same call of other tensors, on their device."""
        query, key, value, *tables = leaves
        remaining = iter(tables)
        terms: list[ScoreTerm] = []
        for term in () if self.bias is None else self.bias.terms:
            assert isinstance(term, DistanceTerm | MatchTerm)
            factors: dict[str, Any] = {name: next(remaining) for name in _factors(term)}
            terms.append(replace(term.to(query.device), **factors))
        bias = ScoreBias(tuple(terms)) if terms else None
        visibility = self.visibility.to(query.device)
        return replace(self, query=query, key=key, value=value, visibility=visibility, bias=bias)

    def definition(self) -> AttentionCase:
        """The same call in float64 on the CPU, on leaves of its own: for ``reference``."""
        return self.with_leaves([leaf.detach().double().cpu().requires_grad_() for leaf in self.leaves])

    def reference(self, *, keep: Tensor | None = None, dropout: float = 0.0) -> Float[Tensor, "B H Q d"]:
        """What attention is by its definition; the bias is looked up entry by entry."""
        return reference_attention(
            self.query,
            self.key,
            self.value,
            visible=self.visibility.dense(),
            bias=self._bias_by_entry(),
            scale=self.scale,
            keep=keep,
            dropout=dropout,
        )

    def largest_score(self) -> float:
        """The greatest score in absolute value: what roundings of scores are relative to."""
        bias = self._bias_by_entry()
        scores = torch.einsum("bhqd,bhkd->bhqk", self.query, self.key) + (0.0 if bias is None else bias)
        return self.scale * float(scores.detach().abs().max())

    def _bias_by_entry(self) -> Tensor | None:
        if self.bias is None:
            return None
        shape = (*self.query.shape[:3], self.key.shape[2])
        places = torch.meshgrid(*(torch.arange(size, device=self.query.device) for size in shape), indexing="ij")
        return self.bias.score_mod()(*places)


def attention_case(
    *,
    length: int,
    memory: int,
    readers: str,
    bias: str,
    heads: int = 2,
    head_dim: int = 8,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float64,
) -> AttentionCase:
    """Three rows: one without memory, one of two documents, one padded on the left.

    Args:
        length, memory: content tokens and remembered ones.
        readers, bias: of ``READERS`` and ``BIASES``.
    """
    draw = torch.Generator().manual_seed(length * 100 + memory)
    content, keys = _tokens(length, memory, draw=draw, expiring=readers == "expiring")
    reading = content
    if readers == "query":
        reading = replace(content, time=content.time - 1, contiguous=False)
    elif readers == "narrow":
        reading = replace(content, back=4, ahead=2)
    elif readers == "backward":
        reading = replace(content, back=5)
    reading, keys = reading.to(device), keys.to(device)

    def leaf(*shape: int) -> Tensor:
        return torch.randn(shape, generator=draw).to(device, dtype).requires_grad_()

    def states(count: int) -> Tensor:
        """Laid out as a projection has it, one token's heads side by side."""
        return leaf(3, count, heads, head_dim).detach().transpose(1, 2).requires_grad_()

    query, key, value = states(length), states(memory + length), states(memory + length)
    return AttentionCase(
        name=f"{dtype}, length {length}, memory {memory}, {readers} readers, {bias}",
        query=query,
        key=key,
        value=value,
        visibility=Visibility.of(reading, keys),
        bias=_bias(bias, reading, keys, leaf=leaf, states=partial(states, length), heads=heads, head_dim=head_dim),
    )


def _tokens(length: int, memory: int, *, draw: torch.Generator, expiring: bool) -> tuple[Slots, Slots]:
    """Content slots, and the keys: memory before them."""
    rows = 3
    position = torch.arange(length).expand(rows, -1)
    doc = torch.zeros(rows, length, dtype=torch.long)
    doc[1, length // 2 :] = 1
    doc[2, : length // 3] = -1
    time = torch.rand(rows, length, generator=draw).argsort(dim=1) + 1
    content = Slots(
        ids=position,
        position=position,
        birth=time,
        time=time,
        doc=doc,
        death=time + torch.randint(length, (rows, length), generator=draw) // 2 if expiring else None,
        segment=(torch.rand(rows, length, generator=draw) < 0.5).long(),
        low=0,
        high=length,
        contiguous=True,
    )
    past_doc = torch.zeros(rows, memory, dtype=torch.long)
    past_doc[0] = -1
    past = MemoryState(layers=(), position=torch.arange(-memory, 0).expand(rows, -1), doc=past_doc)
    return content, past.before(content)


def _bias(
    kind: str,
    readers: Slots,
    keys: Slots,
    *,
    leaf: Callable[..., Tensor],
    states: Callable[[], Tensor],
    heads: int,
    head_dim: int,
) -> ScoreBias | None:
    if kind == "no bias":
        return None
    rows, high = readers.position.shape[0], readers.high - keys.low
    distances = high - (readers.low - keys.high)
    contiguous = readers.contiguous and keys.contiguous
    reader_segment, key_segment = readers.segment, keys.segment
    assert reader_segment is not None
    assert key_segment is not None

    def distance(query: Tensor | None, *shape: int) -> DistanceTerm:
        codes = leaf(*shape, distances)
        place = {"reader": readers.position, "key": keys.position}
        return DistanceTerm(query=query, codes=codes, high=high, contiguous=contiguous, **place)

    def match() -> MatchTerm:
        scores = leaf(rows, heads, readers.count, 2)
        return MatchTerm(scores=scores, reader=reader_segment, key=key_segment)

    tables = rows if kind == "a table a row" else 1
    terms: tuple[ScoreTerm, ...] = (distance(states(), tables, heads, head_dim), match())
    if kind == "every term":
        terms = (distance(None, 1, heads, 1), *terms, match(), distance(states(), 1, heads, head_dim))
    return ScoreBias(terms)


def _factors(term: ScoreTerm) -> list[str]:
    return [name for name in _FACTORS[type(term)] if getattr(term, name) is not None]
