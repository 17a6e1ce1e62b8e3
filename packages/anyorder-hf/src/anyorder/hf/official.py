"""Names and shapes of the official TensorFlow variables, to and from ours."""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import Tensor

_LAYER = re.compile(r"^model/transformer/layer_(\d+)/(.+)$")
_WITHIN_LAYER = {
    "rel_attn/q/kernel": "attention.query.weight",
    "rel_attn/k/kernel": "attention.key.weight",
    "rel_attn/v/kernel": "attention.value.weight",
    "rel_attn/r/kernel": "attention.biases.0.project.weight",
    "rel_attn/o/kernel": "attention.out.weight",
    "rel_attn/LayerNorm/gamma": "norm.weight",
    "rel_attn/LayerNorm/beta": "norm.bias",
    "ff/layer_1/kernel": "feed_forward.expand.weight",
    "ff/layer_1/bias": "feed_forward.expand.bias",
    "ff/layer_2/kernel": "feed_forward.contract.weight",
    "ff/layer_2/bias": "feed_forward.contract.bias",
    "ff/LayerNorm/gamma": "feed_forward.norm.weight",
    "ff/LayerNorm/beta": "feed_forward.norm.bias",
}
_STACKED = {
    "model/transformer/r_w_bias": "attention.r_w_bias",
    "model/transformer/r_r_bias": "attention.biases.0.r_r_bias",
    "model/transformer/r_s_bias": "attention.biases.1.r_s_bias",
    "model/transformer/seg_embed": "attention.biases.1.seg_embed",
}
EMBEDDING = "model/transformer/word_embedding/lookup_table"
QUERY_EMBEDDING = "model/transformer/mask_emb/mask_emb"
LM_BIAS = "model/lm_loss/bias"


def _projection_to_ours(name: str, kernel: Tensor) -> Tensor:
    """Official projections, ``[D, H, d]``, and dense kernels, ``[in, out]``, as ``nn.Linear`` has them."""
    if name.endswith("rel_attn/o/kernel"):
        return kernel.flatten(1)  # stored as [D, H, d] too, but used from heads to D
    if name.endswith("kernel"):
        return kernel.flatten(1).T
    return kernel


def from_official(variables: Mapping[str, Tensor], *, n_layer: int) -> dict[str, Tensor]:
    """Our backbone's state from the official variables (or gradients, or optimiser slots of the same names).

    Biases of an ``untie_r=False`` model, ``[H, d]``, stand for every layer; ``seg_embed`` is always per layer.
    Variables of heads are left to :mod:`anyorder.hf.official_heads`; unknown names are ignored.

    Args:
        variables: by official name, as stored.
        n_layer: number of layers.
    """
    state: dict[str, Tensor] = {}
    for name, value in variables.items():
        match = _LAYER.match(name)
        if match and match[2] in _WITHIN_LAYER:
            state[f"layers.{match[1]}.{_WITHIN_LAYER[match[2]]}"] = _projection_to_ours(name, value)
        elif name in _STACKED:
            per_layer = value.ndim == (4 if name.endswith("seg_embed") else 3)
            for layer in range(n_layer):
                state[f"layers.{layer}.{_STACKED[name]}"] = value[layer] if per_layer else value
        elif name == EMBEDDING:
            state["embedding.weight"] = value
        elif name == QUERY_EMBEDDING:
            state["query_embedding"] = value.flatten()
    return {name: value.contiguous() for name, value in state.items()}


def to_official(
    state: Mapping[str, Tensor], *, n_layer: int, n_head: int, untie_biases: bool = True
) -> dict[str, Tensor]:
    """The inverse of :func:`from_official`.

    Raises:
        ValueError: ``untie_biases`` is false and the layers' biases differ.
    """
    variables: dict[str, Tensor] = {
        EMBEDDING: state["embedding.weight"],
        QUERY_EMBEDDING: state["query_embedding"].view(1, 1, -1),
    }
    for official, ours in _WITHIN_LAYER.items():
        for layer in range(n_layer):
            value = state[f"layers.{layer}.{ours}"]
            if official.endswith("rel_attn/o/kernel"):
                value = value.unflatten(1, (n_head, -1))
            elif official.startswith("rel_attn") and official.endswith("kernel"):
                value = value.T.unflatten(1, (n_head, -1))
            elif official.endswith("kernel"):
                value = value.T
            variables[f"model/transformer/layer_{layer}/{official}"] = value.contiguous()
    for official, ours in _STACKED.items():
        stacked = torch.stack([state[f"layers.{layer}.{ours}"] for layer in range(n_layer)])
        if not untie_biases and not official.endswith("seg_embed"):
            if not bool((stacked == stacked[:1]).all()):
                raise ValueError(f"{official} differs between layers, so it cannot be written as one shared bias")
            stacked = stacked[0]
        variables[official] = stacked
    return variables
