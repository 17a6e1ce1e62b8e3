"""The README of an exported model, filled from its run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anyorder.models import Architecture

_HEAD = """---
library_name: transformers
tags: [{tags}]
---
"""


def model_card(
    name: str,
    *,
    architecture: Architecture,
    recipe: Mapping[str, Any] | None = None,
    data: Mapping[str, Any] | None = None,
    records: Sequence[Mapping[str, Any]] = (),
    results: Mapping[str, str] | None = None,
    parameters: int | None = None,
    source: str = "",
    reading: str = "",
) -> str:
    """Markdown with what is known: model, data, objective, budget and results. What is not known is not mentioned.

    Args:
        name: of the model.
        architecture: of the backbone.
        recipe: the run's resolved recipe.
        data: ``counts`` and ``sources`` of the corpus (its manifest).
        records: the run's log, a record a step.
        results: measurements beside the log's, by what they are of.
        parameters: how many numbers the model has.
        source: where a model that was not trained here comes from.
        reading: what the model may see when transformers runs it as it was trained.
    """
    objective = (recipe or {}).get("objective", {})
    kind = objective.get("order", {}).get("type", "")
    tags = ["xlnet", "anyorder", *([kind] if kind else [])]
    parts = [_HEAD.format(tags=", ".join(tags)), f"# {name}\n"]
    if source:
        parts.append(f"From {source}.\n")
    size = f"{architecture.n_layer} layers, width {architecture.d_model}, {architecture.n_head} heads"
    count = f", {parameters:,} parameters" if parameters else ""
    parts.append(f"A two-stream Transformer-XL: {size}{count}, {architecture.vocab_size:,} pieces.\n")
    parts.append(_use(name))
    if reading:
        parts.append(f"{reading}\n")
    if data:
        parts.append(_table("Data", _data(data, (recipe or {}).get("data", {}))))
    if objective:
        parts.append(_table("Objective", {key: _short(value) for key, value in objective.items()}))
    if recipe:
        rows = {key: _short(recipe[key]) for key in ("memory", "optimizer", "schedule", "seed") if key in recipe}
        parts.append(_table("Training", rows | _budget(records, recipe)))
    if measured := _results(records) | dict(results or {}):
        parts.append(_table("Results on held-out text", measured))
    return "\n".join(parts)


def _use(name: str) -> str:
    return (
        "```python\n"
        "from transformers import AutoTokenizer, XLNetLMHeadModel\n\n"
        f'tokenizer = AutoTokenizer.from_pretrained("{name}")\n'
        f'model = XLNetLMHeadModel.from_pretrained("{name}")\n'
        "```\n"
    )


def _data(data: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, str]:
    rows = {key: f"{value:,}" for key, value in data.get("counts", {}).items()}
    if sources := data.get("sources"):
        named = ", ".join(str(source.get("name", source)) for source in sources[:8])
        rows["sources"] = named + (f" and {len(sources) - 8} more" if len(sources) > 8 else "")
    return rows | {key: str(settings[key]) for key in ("length", "layout", "bidirectional") if key in settings}


def _budget(records: Sequence[Mapping[str, Any]], recipe: Mapping[str, Any]) -> dict[str, str]:
    rows = {"batch size": str(recipe["train"]["batch_size"])} if "batch_size" in recipe.get("train", {}) else {}
    if records:
        rows["steps"] = f"{records[-1]['step']:,}"
        rows["tokens read"] = f"{sum(record.get('tokens', 0) for record in records):,}"
        rows["targets predicted"] = f"{sum(record.get('targets', 0) for record in records):,}"
        rows["seconds of training"] = f"{sum(record.get('seconds', 0.0) for record in records):,.0f}"
    return rows


def _results(records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The last evaluation in the log."""
    evaluated = [record for record in records if any(key.startswith("valid/") for key in record)]
    if not evaluated:
        return {}
    last = evaluated[-1]
    rows = {key.removeprefix("valid/"): value for key, value in last.items() if key.startswith("valid/")}
    rows.pop("loss/loss", None)  # the total again, where there is one head
    return {f"{key}, nats a target, step {last['step']}": f"{value:.4f}" for key, value in rows.items()}


def _table(title: str, rows: Mapping[str, str]) -> str:
    lines = [f"## {title}\n", "| | |", "|---|---|"]
    lines += [f"| {key} | {value} |" for key, value in rows.items()]
    return "\n".join(lines) + "\n"


def _short(value: Any) -> str:
    """A part and its settings in one line."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key} {_short(item)}" for key, item in value.items() if key != "type" and item is not None)
        kind = str(value.get("type", ""))
        return f"{kind} ({inner})" if kind and inner else kind or inner
    return str(value)
