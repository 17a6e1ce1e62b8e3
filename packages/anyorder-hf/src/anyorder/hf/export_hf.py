"""A model of ours as a folder that transformers loads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from anyorder.core import CheckpointError
from anyorder.models import Pretrained
from anyorder.models.files import whole_folder

from .config import to_config
from .names import TASKS, to_transformers

_SPECIALS = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "sep_token": "<sep>",
    "pad_token": "<pad>",
    "cls_token": "<cls>",
    "mask_token": "<mask>",
}


def export_hf(
    model: Pretrained,
    out: Path,
    *,
    card: str = "",
    config: Mapping[str, Any] | None = None,
    labels: list[str] | None = None,
) -> None:
    """Write weights, configuration, tokenizer and model card; all there or not at all.

    ``ff_activation`` is set so that transformers computes our activation: its own default for XLNet, the exact GELU,
    is not the official one. ``use_mems_eval`` is off unless the model came with it on: returned memories break
    batched evaluation (transformers issues 7584 and 11993), and ``use_mems=True`` asks for them at any call.

    Args:
        model: what to export.
        out: a new folder.
        card: text of ``README.md``.
        config: settings beside those of the architecture, such as ``mem_len``.
        labels: names of the classes of a classifier.

    Raises:
        CheckpointError: transformers has no such model, with the reason; or ``out`` exists.
    """
    shape = model.architecture
    settings = to_config(shape)
    if any(name.startswith("heads.summary.attend.") for name in model.state):
        raise CheckpointError(
            "the head reads a sequence by attention (pooling 'attention'), which transformers' XLNet does not "
            "implement; fine-tune with pooling 'token' to export"
        )
    task = _task(model.state)
    specials, ids = _special_ids(model.tokenizer)
    settings |= {"use_mems_eval": False, "use_mems_train": False, "mem_len": None, "reuse_len": None} | ids
    settings |= dict(model.config) | dict(config or {})
    settings |= {"architectures": [_class_of(task, model.state)], "tie_word_embeddings": True}
    settings["dtype"] = str(model.state["backbone.embedding.weight"].dtype).removeprefix("torch.")
    if task is not None:
        count = model.state[f"{TASKS[task].ours}.weight"].shape[0]
        settings |= _labels(labels, count) if task == "classification" else {}
        if task == "regression":
            settings |= {"problem_type": "regression", "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
        settings["summary_use_proj"] = "heads.summary.project.0.weight" in model.state
    weights = to_transformers(model.state, n_layer=shape.n_layer, n_head=shape.n_head)
    with whole_folder(out) as new:
        # without this note transformers takes the file for another framework's
        save_file({name: value.clone() for name, value in weights.items()}, new / "model.safetensors", {"format": "pt"})
        (new / "spiece.model").write_bytes(model.tokenizer)
        _write(new / "config.json", settings)
        _write(new / "tokenizer_config.json", _tokenizer_config(model.tokenizer_settings) | specials)
        _write(new / "generation_config.json", ids)
        (new / "README.md").write_text(card or f"# {out.name}\n", encoding="utf-8")


def _task(state: Mapping[str, Tensor]) -> str | None:
    return next((name for name, head in TASKS.items() if f"{head.ours}.weight" in state), None)


def _class_of(task: str | None, state: Mapping[str, Tensor]) -> str:
    if task is not None:
        return TASKS[task].architecture
    return "XLNetForQuestionAnswering" if "heads.answers.start.weight" in state else "XLNetLMHeadModel"


def _labels(labels: list[str] | None, count: int) -> dict[str, Any]:
    names = labels or [f"LABEL_{number}" for number in range(count)]
    assert len(names) == count, (names, count)
    return {
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
    }


def _special_ids(tokenizer: bytes) -> tuple[dict[str, str], dict[str, int]]:
    """Special tokens by transformers' names, and the ids that its configuration wants."""
    from sentencepiece import SentencePieceProcessor

    processor: Any = SentencePieceProcessor(model_proto=tokenizer)
    tokens = {name: piece for name, piece in _SPECIALS.items() if processor.piece_to_id(piece) != processor.unk_id()}
    tokens["unk_token"] = processor.id_to_piece(processor.unk_id())
    ids = {f"{name}_id": processor.piece_to_id(tokens[name]) for name in ("bos_token", "eos_token", "pad_token")}
    return tokens, ids


def _tokenizer_config(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "tokenizer_class": "XLNetTokenizer",
        "do_lower_case": bool(settings.get("lower", False)),
        "keep_accents": bool(settings.get("keep_accents", False)),
        "remove_space": True,
        "padding_side": "left",
        "additional_special_tokens": ["<eop>", "<eod>"],
    }


def _write(path: Path, tree: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(tree, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
