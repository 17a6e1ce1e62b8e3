"""A transformers XLNet folder into a model of ours."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anyorder.core import CheckpointError
from anyorder.models import LM_BIAS, Pretrained
from anyorder.models.files import read_json

from .config import from_config
from .names import EMBEDDING, from_transformers
from .sentencepiece_model import sentencepiece_model
from .tokenizer_check import require_tokenizer
from .weights import read_weights

_INTERPRETED = frozenset(
    {
        *("vocab_size", "n_token", "d_model", "hidden_size", "n_layer", "num_hidden_layers"),
        *("n_head", "num_attention_heads", "d_head", "d_inner", "dropout", "initializer_range", "layer_norm_eps"),
        *("ff_activation", "clamp_len", "untie_r", "architectures", "dtype", "torch_dtype", "transformers_version"),
        *("_name_or_path", "model_type"),
    }
)


def import_hf(source: Path | str, *, activation: str | None = None, tokenizer: Path | None = None) -> Pretrained:
    """Read a model that transformers saved, weights kept to the bit.

    Args:
        source: a folder with ``config.json`` and safetensors, or a name on the Hugging Face hub that has been
            downloaded before; nothing is fetched.
        activation: ours (``gelu``, ``gelu_exact``, ``relu``) in place of the one that the configuration names.
        tokenizer: a SentencePiece model in place of the folder's.

    Raises:
        CheckpointError: no such folder, a file is damaged or missing, or a model that ours cannot be.
    """
    folder = _local(source)
    config = read_json(folder / "config.json")
    architecture, notes = from_config(config, source=str(folder), activation=activation)
    weights = read_weights(folder)
    task = _task(config)
    state, unknown = from_transformers(weights, task=task)
    _require_tied(weights, state, folder)
    if unknown:
        notes.append(f"left out, having no place here: {', '.join(unknown[:6])}{' ...' if len(unknown) > 6 else ''}")
    if LM_BIAS not in state:
        notes.append("it has no language-model head, so the output bias will start from zero")
    model, settings = _tokenizer(folder, tokenizer)
    notes += require_tokenizer(model, vocab_size=architecture.vocab_size, source=str(folder))
    return Pretrained(
        architecture=architecture,
        state=state,
        tokenizer=model,
        tokenizer_settings=settings,
        source=f"transformers: {source}",
        config={key: value for key, value in config.items() if key not in _INTERPRETED},
        notes=tuple(notes),
    )


def _local(source: Path | str) -> Path:
    folder = Path(source)
    if folder.is_dir():
        return folder
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(str(source), local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError):
        raise CheckpointError(
            f"{source} is no folder, and no model of that name is in this machine's Hugging Face cache; nothing is "
            f"downloaded here. Get it first, with: hf download {source}"
        ) from None


def _task(config: Mapping[str, Any]) -> str | None:
    """What ``logits_proj`` is of: the configuration's ``architectures`` tell."""
    names = config.get("architectures") or []
    if "XLNetForMultipleChoice" in names:
        return "choice"
    if "XLNetForSequenceClassification" in names:
        labels = config.get("num_labels") or len(config.get("id2label") or ()) or 2
        return "regression" if labels == 1 else "classification"
    return None


def _require_tied(weights: Mapping[str, Tensor], state: Mapping[str, Tensor], folder: Path) -> None:
    output = weights.get("lm_loss.weight")
    if output is not None and EMBEDDING in state and not torch.equal(output, state[EMBEDDING]):
        raise CheckpointError(f"{folder}: lm_loss.weight is not the embedding's copy; ours is always tied to it")


def _tokenizer(folder: Path, given: Path | None) -> tuple[bytes, dict[str, Any]]:
    file = folder / "tokenizer_config.json"
    config = read_json(file) if file.is_file() else {}
    settings = {
        "style": "xlnet",
        "lower": bool(config.get("do_lower_case", False)),
        "keep_accents": bool(config.get("keep_accents", False)),
    }
    for path in (given, folder / "spiece.model"):
        if path is not None and (path.is_file() or path is given):
            try:
                return path.read_bytes(), settings
            except OSError as error:
                raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
    built = folder / "tokenizer.json"
    if built.is_file():
        return sentencepiece_model(built.read_bytes(), name=str(built)), settings
    raise CheckpointError(
        f"{folder} has neither spiece.model nor tokenizer.json; name a SentencePiece model with --tokenizer"
    )
