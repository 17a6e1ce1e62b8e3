"""Names and shapes of the official heads' variables, as our heads have them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from torch import Tensor

_SUMMARY = "model/sequnece_summary/"  # so spelt in the official graph
_LINEAR = {
    f"{_SUMMARY}summary": "project.0",
    f"{_SUMMARY}abs_attn/q": "attend.query",
    f"{_SUMMARY}abs_attn/k": "attend.key",
    f"{_SUMMARY}abs_attn/v": "attend.value",
    f"{_SUMMARY}abs_attn/o": "attend.out",
}
_SUMMARY_OTHER = {
    f"{_SUMMARY}summary_bias": "attend.summary_bias",
    f"{_SUMMARY}abs_attn/LayerNorm/gamma": "attend.norm.weight",
    f"{_SUMMARY}abs_attn/LayerNorm/beta": "attend.norm.bias",
}
_ANSWERS = {
    "start_logits/dense": "start",
    "end_logits/dense_0": "end_features",
    "end_logits/LayerNorm": "end_norm",
    "end_logits/dense_1": "end",
    "answer_class/dense_0": "answer_features",
    "answer_class/dense_1": "answer",
}
_TASK = re.compile(r"^model/(classification|regression)_(.+)/logit/(kernel|bias)$")
_LEAVES = {"kernel": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}


def summary_from_official(variables: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state of a ``SequenceSummary`` from the official variables, or gradients; unknown names are ignored."""
    state = {ours: variables[name] for name, ours in _SUMMARY_OTHER.items() if name in variables}
    for scope, ours in _LINEAR.items():
        for leaf in ("kernel", "bias"):
            if (value := variables.get(f"{scope}/{leaf}")) is not None:
                state[f"{ours}.{_LEAVES[leaf]}"] = _to_ours(f"{scope}/{leaf}", value)
    return state


def question_answering_from_official(variables: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state of a ``QuestionAnswering`` head."""
    state = {}
    for name, value in variables.items():
        scope, _, leaf = name.rpartition("/")
        if scope in _ANSWERS:
            state[f"{_ANSWERS[scope]}.{_LEAVES[leaf]}"] = _to_ours(name, value)
    return state


def multiple_choice_from_official(variables: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state of a ``MultipleChoice`` head (RACE)."""
    return {
        f"score.{_LEAVES[leaf]}": _to_ours(leaf, variables[f"logits/dense/{leaf}"])
        for leaf in ("kernel", "bias")
        if f"logits/dense/{leaf}" in variables
    }


def task_from_official(variables: Mapping[str, Tensor], *, task: str | None = None) -> dict[str, Tensor]:
    """The state of a ``SequenceClassification`` or ``SequenceRegression`` head.

    Args:
        variables: by official name, as stored.
        task: its name in lower case, such as ``mnli``; None where the variables hold one task only.

    Raises:
        ValueError: the variables hold several tasks and none is named.
    """
    state: dict[str, Tensor] = {}
    found: set[str] = set()
    for name, value in variables.items():
        match = _TASK.match(name)
        if match and task in (None, match[2]):
            found.add(match[2])
            layer = "classify" if match[1] == "classification" else "value"
            state[f"{layer}.{_LEAVES[match[3]]}"] = _to_ours(name, value)
    if len(found) > 1:
        raise ValueError(f"the checkpoint has heads of several tasks ({', '.join(sorted(found))}); name one")
    return state


def _to_ours(name: str, value: Tensor) -> Tensor:
    """Official kernels, ``[in, out]`` or ``[D, H, d]``, as ``nn.Linear`` has them."""
    if not name.endswith("kernel"):
        return value
    if name.endswith("abs_attn/o/kernel"):
        return value.flatten(1).contiguous()  # stored as [D, H, d] too, but used from heads to D
    return value.flatten(1).T.contiguous()
