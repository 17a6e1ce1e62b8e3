"""Our architecture in transformers' words: ``config.json``, to and from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyorder.core import CheckpointError
from anyorder.models import BIASES, Architecture

_ACTIVATIONS = {"gelu_new": "gelu", "gelu_pytorch_tanh": "gelu", "gelu": "gelu_exact", "relu": "relu"}
_TO_TRANSFORMERS = {"gelu": "gelu_new", "gelu_exact": "gelu", "relu": "relu"}


def from_config(
    config: Mapping[str, Any], *, source: str, activation: str | None = None
) -> tuple[Architecture, list[str]]:
    """An architecture from transformers' ``config.json``, and what to tell the user about it.

    Args:
        config: the parsed file.
        source: what to call it in errors.
        activation: ours, in place of the file's.

    Raises:
        CheckpointError: not XLNet, or a setting that our model does not have.
    """
    if config.get("model_type") != "xlnet":
        raise CheckpointError(f"{source}: model_type is {config.get('model_type')!r}; only 'xlnet' can be imported")
    if config.get("tie_word_embeddings") is False or config.get("tie_weight") is False:
        raise CheckpointError(f"{source}: its output layer is not tied to the embedding, which ours always is")
    if config.get("untie_r") is False:
        raise CheckpointError(f"{source}: untie_r is false, which transformers itself does not implement")
    theirs = config.get("ff_activation", "gelu")
    if theirs not in _ACTIVATIONS:
        raise CheckpointError(f"{source}: ff_activation {theirs!r} is unknown here ({', '.join(_ACTIVATIONS)})")
    notes = []
    if theirs == "gelu" and activation is None:
        notes.append(
            "its ff_activation 'gelu' is the exact one, as transformers computes it; weights that were converted "
            "from the official release were trained with the tanh approximation: --activation gelu"
        )
    if config.get("attn_type", "bi") != "bi" or config.get("same_length"):
        notes.append("attn_type and same_length are no property of the model here: what may see what is the recipe's")

    def get(*names: str, default: Any = None) -> Any:
        found = next((config[name] for name in names if config.get(name) is not None), default)
        if found is None:
            raise CheckpointError(f"{source}: {names[0]} is missing")
        return found

    d_model, n_head = get("d_model", "hidden_size"), get("n_head", "num_attention_heads")
    clamp = config.get("clamp_len", -1)
    dropout = config.get("dropout", 0.1)
    return Architecture(
        vocab_size=get("vocab_size", "n_token"),
        n_layer=get("n_layer", "num_hidden_layers"),
        d_model=d_model,
        n_head=n_head,
        d_head=get("d_head", default=d_model // n_head),
        d_inner=get("d_inner"),
        activation=activation or _ACTIVATIONS[theirs],
        clamp_len=clamp if clamp is not None and clamp > 0 else None,
        dropout=dropout,
        attention_dropout=dropout,
        init_std=config.get("initializer_range", 0.02),
        norm_eps=config.get("layer_norm_eps", 1e-12),
    ), notes


def to_config(architecture: Architecture) -> dict[str, Any]:
    """Transformers' ``config.json``.

    Raises:
        CheckpointError: transformers has no such model.
    """
    if architecture.d_model != architecture.n_head * architecture.d_head:
        raise CheckpointError(
            f"d_head is {architecture.d_head}, but transformers' XLNet only has d_model / n_head "
            f"({architecture.d_model} / {architecture.n_head}); such a model cannot be exported"
        )
    if architecture.absolute_positions is not None or architecture.absolute_segments is not None:
        raise CheckpointError("the model has absolute positions or segments, which transformers' XLNet has not")
    if architecture.biases not in (BIASES, BIASES[:1]):
        raise CheckpointError(
            f"the model has the score terms {', '.join(architecture.biases) or 'none'}; transformers' XLNet has "
            "transformer_xl and, in second place, segment: other models cannot be exported"
        )
    return {
        "model_type": "xlnet",
        "vocab_size": architecture.vocab_size,
        "d_model": architecture.d_model,
        "n_layer": architecture.n_layer,
        "n_head": architecture.n_head,
        "d_head": architecture.d_head,
        "d_inner": architecture.d_inner,
        "ff_activation": _TO_TRANSFORMERS[architecture.activation],
        "untie_r": True,
        "attn_type": "bi",
        "dropout": architecture.dropout,
        "initializer_range": architecture.init_std,
        "layer_norm_eps": architecture.norm_eps,
        "clamp_len": -1 if architecture.clamp_len is None else architecture.clamp_len,
    }
