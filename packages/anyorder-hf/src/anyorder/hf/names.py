"""Names and shapes of transformers' XLNet weights, to and from ours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from anyorder.models import LM_BIAS

EMBEDDING = "backbone.embedding.weight"

_WITHIN_LAYER = {
    "rel_attn.q": "attention.query.weight",
    "rel_attn.k": "attention.key.weight",
    "rel_attn.v": "attention.value.weight",
    "rel_attn.r": "attention.biases.0.project.weight",
    "rel_attn.o": "attention.out.weight",
    "rel_attn.r_w_bias": "attention.r_w_bias",
    "rel_attn.r_r_bias": "attention.biases.0.r_r_bias",
    "rel_attn.r_s_bias": "attention.biases.1.r_s_bias",
    "rel_attn.seg_embed": "attention.biases.1.seg_embed",
    "rel_attn.layer_norm.weight": "norm.weight",
    "rel_attn.layer_norm.bias": "norm.bias",
    "ff.layer_1.weight": "feed_forward.expand.weight",
    "ff.layer_1.bias": "feed_forward.expand.bias",
    "ff.layer_2.weight": "feed_forward.contract.weight",
    "ff.layer_2.bias": "feed_forward.contract.bias",
    "ff.layer_norm.weight": "feed_forward.norm.weight",
    "ff.layer_norm.bias": "feed_forward.norm.bias",
}
_TOP = {
    "transformer.word_embedding.weight": EMBEDDING,
    "transformer.mask_emb": "backbone.query_embedding",
    "lm_loss.bias": LM_BIAS,
    "sequence_summary.summary.weight": "heads.summary.project.0.weight",
    "sequence_summary.summary.bias": "heads.summary.project.0.bias",
    "start_logits.dense.weight": "heads.answers.start.weight",
    "start_logits.dense.bias": "heads.answers.start.bias",
    "end_logits.dense_0.weight": "heads.answers.end_features.weight",
    "end_logits.dense_0.bias": "heads.answers.end_features.bias",
    "end_logits.LayerNorm.weight": "heads.answers.end_norm.weight",
    "end_logits.LayerNorm.bias": "heads.answers.end_norm.bias",
    "end_logits.dense_1.weight": "heads.answers.end.weight",
    "end_logits.dense_1.bias": "heads.answers.end.bias",
    "answer_class.dense_0.weight": "heads.answers.answer_features.weight",
    "answer_class.dense_0.bias": "heads.answers.answer_features.bias",
    "answer_class.dense_1.weight": "heads.answers.answer.weight",
}
_PROJECTIONS = ("rel_attn.q", "rel_attn.k", "rel_attn.v", "rel_attn.r")
_LAYER = re.compile(r"^transformer\.layer\.(\d+)\.(.+)$")


@dataclass(frozen=True)
class TaskHead:
    """The last layer of a fine-tuned model: transformers' ``logits_proj`` under each of our heads' names."""

    ours: str
    architecture: str


TASKS = {
    "classification": TaskHead("heads.classification.classify", "XLNetForSequenceClassification"),
    "regression": TaskHead("heads.regression.value", "XLNetForSequenceClassification"),
    "choice": TaskHead("heads.choice.score", "XLNetForMultipleChoice"),
}


def from_transformers(weights: Mapping[str, Tensor], *, task: str | None = None) -> tuple[dict[str, Tensor], list[str]]:
    """Our weights from transformers', in the same precision, and the names that mean nothing to us.

    Args:
        weights: by transformers' name. A model saved without a head (``XLNetModel``) has no ``transformer.`` prefix.
        task: which of ``TASKS`` ``logits_proj`` is of; None leaves it out.
    """
    bare = not any(name.startswith("transformer.") for name in weights)
    state: dict[str, Tensor] = {}
    unknown: list[str] = []
    for given, value in weights.items():
        name = f"transformer.{given}" if bare else given
        if match := _LAYER.match(name):
            inner = _WITHIN_LAYER.get(match[2])
            if inner is not None:
                state[f"backbone.layers.{match[1]}.{inner}"] = _to_ours(match[2], value)
                continue
        elif name in _TOP:
            state[_TOP[name]] = value.flatten() if name.endswith("mask_emb") else value
            continue
        elif name.startswith("logits_proj.") and task is not None:
            state[f"{TASKS[task].ours}.{name.removeprefix('logits_proj.')}"] = value
            continue
        elif name == "lm_loss.weight":
            continue  # tied to the embedding: the importer compares them
        unknown.append(given)
    return {name: value.contiguous() for name, value in state.items()}, unknown


def to_transformers(state: Mapping[str, Tensor], *, n_layer: int, n_head: int) -> dict[str, Tensor]:
    """The inverse of :func:`from_transformers`.

    A backbone without the segment term gets one of zeros: its scores are then 0 whatever ``token_type_ids`` say.
    """
    weights: dict[str, Tensor] = {}
    for theirs, ours in _TOP.items():
        if ours in state:
            weights[theirs] = state[ours].view(1, 1, -1) if theirs.endswith("mask_emb") else state[ours]
    for task in TASKS.values():
        for leaf in ("weight", "bias"):
            if (value := state.get(f"{task.ours}.{leaf}")) is not None:
                weights[f"logits_proj.{leaf}"] = value
    for layer in range(n_layer):
        prefix = f"backbone.layers.{layer}."
        found = {theirs: state[prefix + ours] for theirs, ours in _WITHIN_LAYER.items() if prefix + ours in state}
        heads = found["rel_attn.r_w_bias"]
        found.setdefault("rel_attn.r_s_bias", torch.zeros_like(heads))
        found.setdefault("rel_attn.seg_embed", torch.zeros(2, *heads.shape, dtype=heads.dtype))
        for theirs, value in found.items():
            weights[f"transformer.layer.{layer}.{theirs}"] = _to_theirs(theirs, value, n_head=n_head)
    return {name: value.contiguous() for name, value in weights.items()}


def _to_ours(name: str, value: Tensor) -> Tensor:
    """Projections are ``[D, H, d]`` there and ``nn.Linear``'s ``[out, in]`` here; dense layers are alike."""
    if name == "rel_attn.o":
        return value.flatten(1)  # [D, H, d] too, but used from heads to D
    return value.flatten(1).T if name in _PROJECTIONS else value


def _to_theirs(name: str, value: Tensor, *, n_head: int) -> Tensor:
    if name != "rel_attn.o" and name not in _PROJECTIONS:
        return value
    split: Tensor = (value if name == "rel_attn.o" else value.T).unflatten(1, (n_head, -1))
    return split
