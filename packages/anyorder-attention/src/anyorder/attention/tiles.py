"""Forward and backward pass of tiled attention."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from anyorder.core import DistanceTerm, MatchTerm, Visibility, contiguous_columns, draw_bits, survivors


class Factors(NamedTuple):
    """The tensors of the bias that carry gradients; None where there is no such term.

    ``distance_query [B, H, Q, d]`` and ``codes [B or 1, H, d, N]`` of the distance term, ``match [B, H, Q, 2]`` of the
    segment term, ``other [B, H, Q, K]`` the dense sum of all the rest.
    """

    distance_query: Tensor | None
    codes: Tensor | None
    match: Tensor | None
    other: Tensor | None


@dataclass(frozen=True, kw_only=True)
class Tile:
    """What all heads of one block of one row share.

    ``mask [r, k]`` is 0 or -inf to add; ``blind [r]`` marks readers that see nothing (or is None), ``differs [r, k]``
    is 1 where the segments differ; ``column [r, k]`` is the distance column of each pair, or None where the block's
    distances are a run of ``columns`` starting at ``cut``.
    """

    row: int
    readers: slice
    keys: slice
    number: int
    mask: Tensor
    blind: Tensor | None
    differs: Tensor | None
    column: Tensor | None
    cut: int
    columns: int


@dataclass(kw_only=True)
class Tiling:
    """How one call is cut into tiles, and what its backward pass needs of each."""

    visibility: Visibility
    distance: DistanceTerm | None
    match: MatchTerm | None
    scale: float
    dropout: float
    tile: int
    recompute: bool
    seed: int = 0
    kept: dict[tuple[int, int], tuple[Tensor, Tensor | None]] = field(default_factory=dict)
    bands: dict[tuple[int, int], Tensor] = field(default_factory=dict)

    def tiles(self, dtype: torch.dtype) -> Iterator[Tile]:
        rows, count = self.visibility.time.shape
        number = 0
        for start in range(0, count, self.tile):
            readers = slice(start, min(start + self.tile, count))
            keys = self.visibility.key_range(readers)
            seen = self.visibility.block(readers, keys).dense()
            blind = ~seen.any(dim=-1)
            any_blind = bool(blind.any())
            for row in range(rows):
                # A blind reader sees everything, so that no row is all -inf; its weights are cleared afterwards.
                hidden = ~seen[row] & ~blind[row, :, None] if any_blind else ~seen[row]
                yield Tile(
                    row=row,
                    readers=readers,
                    keys=keys,
                    number=number,
                    mask=torch.zeros(hidden.shape, dtype=dtype).masked_fill_(hidden, -math.inf),
                    blind=blind[row] if any_blind else None,
                    differs=self._differs(row, readers, keys, dtype),
                    **self._columns(row, readers, keys),
                )
                number += 1

    def _differs(self, row: int, readers: slice, keys: slice, dtype: torch.dtype) -> Tensor | None:
        if self.match is None:
            return None
        return (self.match.reader[row, readers, None] != self.match.key[row, None, keys]).to(dtype)

    def _columns(self, row: int, readers: slice, keys: slice) -> dict[str, Any]:
        term = self.distance
        if term is None:
            return {"column": None, "cut": 0, "columns": 0}
        if term.contiguous:
            cut, columns = contiguous_columns(readers, keys, count=term.reader.shape[1])
            return {"column": None, "cut": cut, "columns": columns}
        column = term.high - term.reader[row, readers, None] + term.key[row, None, keys]
        return {"column": column, "cut": 0, "columns": term.codes.shape[-1]}

    def weights(self, tile: Tile, head: int, query: Tensor, key: Tensor, factors: Factors) -> Tensor:
        """Softmax weights of one tile; ``query`` and the factors' queries are already scaled."""
        row, readers, keys = tile.row, tile.readers, tile.keys
        scores = torch.addmm(tile.mask, query[row, head, readers], key[row, head, keys].T)  # [r, k]
        if factors.distance_query is not None:
            codes = self.codes(tile, head, factors)
            scores += _shear(factors.distance_query[row, head, readers] @ codes, tile)
        if factors.match is not None and tile.differs is not None:
            # One value for the same segment moves a whole row of scores alike and drops out of the softmax.
            same, other = factors.match[row, head, readers].unbind(-1)
            scores.addcmul_(tile.differs, (other - same)[:, None])
        if factors.other is not None:
            scores += factors.other[row, head, readers, keys]
        weights = torch.softmax(scores, dim=-1)
        if tile.blind is not None:
            weights.masked_fill_(tile.blind[:, None], 0.0)
        return weights

    @staticmethod
    def codes(tile: Tile, head: int, factors: Factors) -> Tensor:
        """The codes [d, n] of the tile's distances."""
        assert factors.codes is not None
        row = tile.row if factors.codes.shape[0] > 1 else 0
        return factors.codes[row, head, :, tile.cut : tile.cut + tile.columns]

    def bits(self, tile: Tile, head: int, heads: int) -> Tensor | None:
        """What decides which weights survive dropout, the same whenever it is asked; None without dropout."""
        if self.dropout == 0.0:
            return None
        generator = torch.Generator()
        generator.manual_seed(self.seed + tile.number * heads + head)
        return draw_bits(tile.mask.shape, generator=generator)

    def thin(self, weights: Tensor, bits: Tensor | None) -> Tensor:
        """The weights that survive, a new tensor where any may not."""
        return weights if bits is None else survivors(bits, self.dropout, dtype=weights.dtype).mul_(weights)

    def unshear(self, by_key: Tensor, tile: Tile) -> Tensor:
        """The transpose of ``_shear``: every pair's gradient put back at its distance.

        Where distances are a run, the result is a buffer that the next tile of the same shape overwrites: the pairs of
        every such tile lie in the same band, and outside it the buffer stays zero.
        """
        rows, keys = by_key.shape
        if tile.column is not None:
            return by_key.new_zeros(rows, tile.columns).scatter_(1, tile.column, by_key)
        band = self.bands.get((rows, tile.columns))
        if band is None:
            band = self.bands[rows, tile.columns] = by_key.new_zeros(rows, tile.columns)
        band.view(-1)[rows:].view(rows, tile.columns - 1)[:, :keys].copy_(by_key)
        return band

    def tensors(
        self, tile: Tile, head: int, query: Tensor, key: Tensor, factors: Factors
    ) -> tuple[Tensor, Tensor | None]:
        """Weights and bits of one tile, as the forward pass had them."""
        found = self.kept.pop((tile.number, head), None)
        if found is not None:
            return found
        return self.weights(tile, head, query, key, factors), self.bits(tile, head, query.shape[1])


def _shear(by_distance: Tensor, tile: Tile) -> Tensor:
    """Scores by distance [r, n] as scores by key [r, k]: a view where distances are a run, else a gather."""
    if tile.column is not None:
        return by_distance.gather(1, tile.column)
    rows, columns = by_distance.shape
    flat = by_distance.view(-1)[rows:]
    return flat.view(rows, columns - 1)[:, : tile.keys.stop - tile.keys.start]


def _room(tensor: Tensor) -> Tensor:
    """Room [B, H, N, d] laid out as [B, N, H, d], as the projections before and after attention have it."""
    rows, heads, count, width = tensor.shape
    return tensor.new_empty(rows, count, heads, width).permute(0, 2, 1, 3)


class TiledAttention(torch.autograd.Function):
    """``softmax(scale * (q k^T + bias)) v`` tile by tile."""

    @staticmethod
    def forward(
        ctx: Any,
        tiling: Tiling,
        query: Float[Tensor, "B H Q d"],
        key: Float[Tensor, "B H K d"],
        value: Float[Tensor, "B H K d"],
        *bias: Tensor | None,
    ) -> Float[Tensor, "B H Q d"]:
        if tiling.dropout > 0.0:
            tiling.seed = int(torch.randint(1 << 62, ()))
        with torch.autocast("cpu", enabled=False):
            query, key, value = query.detach(), key.detach(), value.detach()
            scaled, factors = _scaled(tiling, query, Factors(*bias))
            out = _room(query)  # every reader is in one tile of each head
            heads = query.shape[1]
            training = any(ctx.needs_input_grad)
            for tile in tiling.tiles(query.dtype):
                for head in range(heads):
                    weights = tiling.weights(tile, head, scaled, key, factors)
                    bits = tiling.bits(tile, head, heads)
                    if training and not tiling.recompute:
                        tiling.kept[tile.number, head] = (weights, bits)
                    used = tiling.thin(weights, bits)
                    torch.mm(used, value[tile.row, head, tile.keys], out=out[tile.row, head, tile.readers])
            if tiling.dropout > 0.0:
                out.div_(1.0 - tiling.dropout)
        ctx.tiling = tiling
        ctx.save_for_backward(query, key, value, *bias)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        tiling: Tiling = ctx.tiling
        query, key, value, *bias = ctx.saved_tensors
        with torch.autocast("cpu", enabled=False):
            return (None, *_backward(tiling, gradient, query, key, value, Factors(*bias)))


def _scaled(tiling: Tiling, query: Tensor, factors: Factors) -> tuple[Tensor, Factors]:
    """Fold the scale into the small tensors, so that no tile is multiplied by it."""
    distance, codes, match, other = (None if part is None else part.detach() for part in factors)
    return query * tiling.scale, Factors(
        distance_query=None if distance is None else distance * tiling.scale,
        codes=codes,
        match=None if match is None else match * tiling.scale,
        other=None if other is None else other * tiling.scale,
    )


def _backward(
    tiling: Tiling, gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, bias: Factors
) -> tuple[Tensor | None, ...]:
    scaled, factors = _scaled(tiling, query, bias)
    if tiling.dropout > 0.0:
        gradient = gradient / (1.0 - tiling.dropout)
    d_query, d_key, d_value = _room(query), _room(key).zero_(), _room(value).zero_()
    d_distance = None if factors.distance_query is None else _room(factors.distance_query)
    d_codes = None if factors.codes is None else torch.zeros_like(factors.codes)
    d_match = None if factors.match is None else torch.zeros_like(factors.match)
    d_other = None if factors.other is None else torch.zeros_like(factors.other)
    for tile in tiling.tiles(query.dtype):
        row, readers, keys = tile.row, tile.readers, tile.keys
        for head in range(query.shape[1]):
            weights, bits = tiling.tensors(tile, head, scaled, key, factors)
            used = tiling.thin(weights, bits)
            d_out = gradient[row, head, readers]
            d_value[row, head, keys].addmm_(used.T, d_out)
            d_used = tiling.thin(d_out @ value[row, head, keys].T, bits)
            # The gradient at the scaled score; a blind reader's weights are zero, hence so is this.
            d_score = torch._softmax_backward_data(d_used, weights, -1, weights.dtype)
            torch.mm(d_score, key[row, head, keys], out=d_query[row, head, readers])
            d_key[row, head, keys].addmm_(d_score.T, scaled[row, head, readers])
            if d_distance is not None and d_codes is not None and factors.distance_query is not None:
                by_distance = tiling.unshear(d_score, tile)
                codes = tiling.codes(tile, head, factors)
                torch.mm(by_distance, codes.T, out=d_distance[row, head, readers])
                target = tiling.codes(tile, head, factors._replace(codes=d_codes))
                target.addmm_(factors.distance_query[row, head, readers].T, by_distance)
            if d_match is not None and tile.differs is not None:
                other = (d_score * tile.differs).sum(dim=-1)
                d_match[row, head, readers, 1] = other
                d_match[row, head, readers, 0] = -other
            if d_other is not None:
                d_other[row, head, readers, keys] = d_score
    for part in (d_query, d_distance, d_match, d_other):
        if part is not None:
            part.mul_(tiling.scale)
    return d_query, d_key, d_value, d_distance, d_codes, d_match, d_other
