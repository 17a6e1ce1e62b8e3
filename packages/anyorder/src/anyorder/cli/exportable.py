"""What export writes: a model, its card, and what transformers' configuration says beside its architecture."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anyorder.core import CONSECUTIVE, CheckpointError, DataError
from anyorder.models import ABOUT, BACKBONE, LM_BIAS, Pretrained
from anyorder.train.checkpoint import latest
from anyorder.train.finetune import load_finetuning
from anyorder.train.finetune.start import architecture_of
from anyorder.train.fit_result import CHECKPOINTS, METRICS
from anyorder.train.metrics_log import read_metrics
from anyorder.train.recipe import Recipe, load_recipe
from anyorder.train.rows import open_corpus
from anyorder.train.run import RECIPE


@dataclass(frozen=True, kw_only=True)
class Exportable:
    """A model and what goes with it; ``labels`` are the names of a classifier's classes."""

    model: Pretrained
    card: str
    config: Mapping[str, Any] = field(default_factory=dict)
    labels: list[str] | None = None


def exportable(folder: Path, *, results: Path | None, name: str) -> Exportable:
    """Read a run, a fine-tuning run or a model folder.

    Raises:
        CheckpointError: it is none of them, or damaged.
    """
    measured = _measured(results)
    if (folder / ABOUT).is_file():
        return _model_folder(folder, folder.parent / "labels.json", measured, name)
    if (folder / "model" / ABOUT).is_file():
        return _model_folder(folder / "model", folder / "labels.json", measured, name)
    if not (folder / RECIPE).is_file():
        raise CheckpointError(f"{folder} is neither a run's folder (no {RECIPE}) nor a model's (no {ABOUT})")
    return _run(folder, measured, name)


def _model_folder(folder: Path, labels: Path, measured: Mapping[str, str], name: str) -> Exportable:
    from anyorder.hf import model_card

    model = Pretrained.load(folder)
    card = model_card(
        name,
        architecture=model.architecture,
        parameters=sum(value.numel() for value in model.state.values()),
        source=model.source,
        results=measured,
    )
    classes = model.state.get("heads.classification.classify.weight")
    names = json.loads(labels.read_text(encoding="utf-8")) if classes is not None and labels.is_file() else None
    return Exportable(model=model, card=card, config=_pooling(labels.with_name(RECIPE)), labels=names)


def _pooling(recipe: Path) -> dict[str, Any]:
    """How transformers is to summarise a sequence for a fine-tuned head; by default as XLNet does."""
    if not recipe.is_file():
        return {}
    pooling = load_finetuning(recipe).head.pooling
    if pooling == "mean":
        warnings.warn(
            "transformers' mean goes over padding too: give it one text at a time, or equal lengths", stacklevel=2
        )
    return {"summary_type": "mean" if pooling == "mean" else "last"}


def _run(folder: Path, measured: Mapping[str, str], name: str) -> Exportable:
    from anyorder.hf import model_card

    found = latest(folder / CHECKPOINTS)
    if found is None:
        raise CheckpointError(f"{folder} has no checkpoint yet")
    with warnings.catch_warnings():  # what the recipe warns of was said when it was trained
        warnings.simplefilter("ignore")
        recipe = load_recipe(folder / RECIPE)
    data, memory = recipe.sections["data"], recipe.sections["memory"]
    corpus = open_corpus(data.get("corpus"), vocab_size=data.get("vocab_size"))
    weights = found.model()
    state = {key: value for key, value in weights.items() if key.startswith(BACKBONE) or key == LM_BIAS}
    left_out = sorted({key.split(".")[1] for key in weights if key not in state})
    if left_out:
        warnings.warn(f"heads without a counterpart in transformers are left out: {', '.join(left_out)}", stacklevel=2)
    model = Pretrained(
        architecture=architecture_of(recipe.sections["model"], vocab_size=corpus.vocab.size),
        state=state,
        tokenizer=corpus.tokenizer.model,
        tokenizer_settings=corpus.tokenizer.settings,
        source=f"the run {recipe.name!r} after {found.step:,} steps",
    )
    card = model_card(
        name,
        architecture=model.architecture,
        recipe=recipe.tree,
        data={"counts": corpus.manifest.counts, "sources": corpus.manifest.sources},
        records=[record for record in read_metrics(folder / METRICS) if record["step"] <= found.step],
        parameters=sum(value.numel() for value in state.values()),
        results=measured,
        reading=_reading(recipe),
    )
    config = {"mem_len": memory.get("mem_len") or None, "reuse_len": memory.get("reuse_len")}
    return Exportable(model=model, card=card, config=config)


def _reading(recipe: Recipe) -> str:
    """What transformers must be told to read as the model was trained to: by itself it lets every token see all."""
    if CONSECUTIVE in recipe.sections["objective"]["masks"].build().needs:
        return (
            "It was trained to read from left to right. Transformers' XLNet does so with "
            "`perm_mask=torch.ones(L, L).triu(1)[None]`; without it every token sees every other, which this model "
            "never met. The logits at a token predict the next one."
        )
    return ""


def _measured(results: Path | None) -> dict[str, str]:
    """Bits a token of every yardstick in a file of ``anyorder eval --json``."""
    if results is None:
        return {}
    try:
        tree = json.loads(results.read_text(encoding="utf-8"))
        yardsticks = dict(tree["yardsticks"])
        loss = {f"{key}, nats a target, held out": f"{x:.4f}" for key, x in tree["loss"].items() if key != "loss/loss"}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{results}: not what `anyorder eval --json` writes ({error})") from None
    from anyorder.train.yardsticks import Measurement

    for key, value in yardsticks.items():
        headline = Measurement.from_json(value).headline
        if headline is not None:
            loss[f"{key}, bits a token"] = f"{headline.bits_per_token:.3f}"
    return loss
