"""Hidden states of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from anyorder.core import CONSECUTIVE, RecipeError, Slots, Streams, TokenBatch
from anyorder.data.features import Row, collate, encode_pair
from anyorder.train.objective import Objective
from anyorder.train.yardsticks import evaluating

from .open_model import OpenModel

Pool = Literal["mean", "cls", "none"]


def embed(
    model: OpenModel, texts: Sequence[str], *, pool: Pool = "mean", layer: int | None = None, length: int | None = None
) -> dict[str, Tensor]:
    """States of the content stream, ``text SEP CLS`` as in fine-tuning, every token seeing every other.

    A model that was trained from left to right alone reads so here too.

    Args:
        model: whom to ask.
        texts: what is too long loses its end.
        pool: ``mean`` over the text's own tokens, the state of the classification token (``cls``), or each token's.
        layer: 1 is the first; the last by default, 0 the embedding.
        length: most tokens, SEP and CLS included.

    Returns:
        tensors: ``embeddings`` ``[N, D]``; without pooling ``states`` ``[T, D]`` of all texts one after another,
            their ``ids`` ``[T]``, and ``offsets`` ``[N + 1]``, where each text begins.
    """
    objective = model.objective
    layers: int = objective.backbone.n_layer  # type: ignore[attr-defined]
    layer = layers if layer is None else layer
    if not 0 <= layer <= layers:
        raise RecipeError(f"layer {layer}: the model has layers 1 to {layers}, and 0 is its embedding")
    limit = length or model.length
    # Rows of similar length go together; each is padded no further than its batch needs.
    rows = [encode_pair(model.tokenizer, text, length=limit) for text in texts]
    order = sorted(range(len(rows)), key=lambda number: sum(rows[number].padding))
    found: dict[int, tuple[Tensor, Tensor]] = {}
    with evaluating(objective):
        for start in range(0, len(order), 16):
            numbers = order[start : start + 16]
            for number, (states, ids) in zip(
                numbers, _states(objective, [rows[n] for n in numbers], layer), strict=True
            ):
                found[number] = (_pooled(states, pool), ids)
    each = [found[number] for number in range(len(rows))]
    if pool != "none":
        return {"embeddings": torch.stack([states for states, _ in each])}
    sizes = torch.tensor([0, *(len(ids) for _, ids in each)])
    return {
        "states": torch.cat([states for states, _ in each]),
        "ids": torch.cat([ids for _, ids in each]),
        "offsets": sizes.cumsum(0),
    }


def _states(objective: Objective, rows: Sequence[Row], layer: int) -> list[tuple[Tensor, Tensor]]:
    """States ``[n, D]`` and ids ``[n]`` of every row, without its padding."""
    batch: TokenBatch = collate(rows)
    causal = CONSECUTIVE in objective.masks.scoring().needs
    place = torch.arange(batch.length).expand_as(batch.ids)
    content = Slots.of_tokens(batch, place if causal else torch.zeros_like(batch.ids))
    output = objective.backbone(Streams(content=content).to(objective.embedding.device), None)
    hidden = output.content if layer == len(output.layer_inputs) else output.layer_inputs[layer]
    assert hidden is not None
    real = ~batch.padding
    hidden = hidden.float().cpu()
    return [(hidden[row][real[row]], batch.ids[row][real[row]]) for row in range(batch.rows)]


def _pooled(states: Tensor, pool: Pool) -> Tensor:
    if pool == "none":
        return states
    if pool == "cls" or len(states) <= 2:
        return states[-1]
    return states[:-2].mean(dim=0)  # SEP and CLS are not of the text
