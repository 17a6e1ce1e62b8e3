"""An official TensorFlow checkpoint into a model of ours, without TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anyorder.core import CheckpointError
from anyorder.models import BACKBONE, LM_BIAS, Architecture, Pretrained
from anyorder.models.files import read_json

from .official import LM_BIAS as OFFICIAL_LM_BIAS
from .official import from_official
from .official_heads import (
    multiple_choice_from_official,
    question_answering_from_official,
    summary_from_official,
    task_from_official,
)
from .tensorflow import Bundle
from .tokenizer_check import require_tokenizer

_SLOTS = {"adam_m": "exp_avg", "adam_v": "exp_avg_sq", "Adam": "exp_avg", "Adam_1": "exp_avg_sq"}
"""Names of moments in the official ``AdamWeightDecayOptimizer`` and in TensorFlow's Adam, and PyTorch's."""
_COUNTERS = frozenset({"global_step", "beta1_power", "beta2_power"})


def import_tf(
    folder: Path | str,
    *,
    prefix: str | None = None,
    tokenizer: Path | None = None,
    optimizer: bool = False,
    lower: bool = False,
) -> Pretrained:
    """Read a checkpoint of the official code: ``xlnet_config.json``, a tensor bundle and ``spiece.model``.

    Biases that are tied over layers (``untie_r`` false) are given to every layer, which are tied in turn.

    Args:
        folder: with these files, as the official release unpacks.
        prefix: name of the checkpoint (``xlnet_model.ckpt``), where the folder holds several.
        tokenizer: a SentencePiece model in place of the folder's.
        optimizer: read the optimiser's moments too.
        lower: the model was trained on lower-cased text (``uncased``).

    Raises:
        CheckpointError: a file is missing or damaged, or the checkpoint is not an XLNet's.
    """
    folder = Path(folder)
    config = read_json(folder / "xlnet_config.json")
    bundle = Bundle.open(folder / (prefix or _only_checkpoint(folder)))
    architecture = _architecture(config, folder)
    names = [name for name in bundle.entries if name.rpartition("/")[2] not in _SLOTS and name not in _COUNTERS]
    variables = {name: bundle.read(name) for name in names}
    state = _to_ours(variables, n_layer=architecture.n_layer)
    notes = []
    if LM_BIAS not in state:
        notes.append("it has no language-model head, so the output bias will start from zero")
    model = _tokenizer(folder, tokenizer)
    notes += require_tokenizer(model, vocab_size=architecture.vocab_size, source=str(folder))
    return Pretrained(
        architecture=architecture,
        state=state,
        tokenizer=model,
        tokenizer_settings={"style": "xlnet", "lower": lower, "keep_accents": False},
        source=f"official TensorFlow checkpoint: {bundle.prefix}",
        optimizer=_optimizer(bundle, n_layer=architecture.n_layer) if optimizer else {},
        notes=tuple(notes),
    )


def _only_checkpoint(folder: Path) -> str:
    found = sorted(path.name.removesuffix(".index") for path in folder.glob("*.index"))
    if not found:
        raise CheckpointError(f"{folder} holds no TensorFlow checkpoint: there is no file that ends in .index")
    if len(found) > 1:
        raise CheckpointError(f"{folder} holds several checkpoints; name one with --prefix: {', '.join(found)}")
    return found[0]


def _architecture(config: Mapping[str, Any], folder: Path) -> Architecture:
    """From ``xlnet_config.json`` (``xlnet.py`` ``XLNetConfig``)."""
    try:
        return Architecture(
            vocab_size=config["n_token"],
            n_layer=config["n_layer"],
            d_model=config["d_model"],
            n_head=config["n_head"],
            d_head=config["d_head"],
            d_inner=config["d_inner"],
            activation={"gelu": "gelu", "relu": "relu"}[config["ff_activation"]],
            untie_biases=bool(config["untie_r"]),
        )
    except KeyError as error:
        raise CheckpointError(f"{folder / 'xlnet_config.json'}: {error} is missing or unknown") from None


def _to_ours(variables: Mapping[str, Tensor], *, n_layer: int) -> dict[str, Tensor]:
    state = {BACKBONE + name: value for name, value in from_official(variables, n_layer=n_layer).items()}
    if OFFICIAL_LM_BIAS in variables:
        state[LM_BIAS] = variables[OFFICIAL_LM_BIAS]
    heads = {
        "summary": summary_from_official(variables),
        "answers": question_answering_from_official(variables),
        "choice": multiple_choice_from_official(variables),
    }
    try:
        task = task_from_official(variables)
    except ValueError as error:
        raise CheckpointError(str(error)) from None
    heads["regression" if any(name.startswith("value.") for name in task) else "classification"] = task
    return state | {f"heads.{head}.{name}": value for head, part in heads.items() for name, value in part.items()}


def _optimizer(bundle: Bundle, *, n_layer: int) -> dict[str, Tensor]:
    """Moments by our names, as a run's checkpoints have them, and the step each weight has come to."""
    found: dict[str, Tensor] = {}
    for theirs, ours in _SLOTS.items():
        suffix = f"/{theirs}"
        names = [name for name in bundle.entries if name.endswith(suffix)]
        moments = {name.removesuffix(suffix): bundle.read(name) for name in names}
        found |= {f"{name}/{ours}": value for name, value in _to_ours(moments, n_layer=n_layer).items()}
    if not found:
        raise CheckpointError(f"{bundle.prefix} holds no moments of an optimiser; import it without them")
    step = bundle.read("global_step").to(torch.float32)
    weights = {name.rpartition("/")[0] for name in found}
    return found | {f"{name}/step": step.clone() for name in weights}


def _tokenizer(folder: Path, given: Path | None) -> bytes:
    path = given or folder / "spiece.model"
    try:
        return path.read_bytes()
    except OSError:
        raise CheckpointError(f"{path} cannot be read; name the SentencePiece model with --tokenizer") from None
