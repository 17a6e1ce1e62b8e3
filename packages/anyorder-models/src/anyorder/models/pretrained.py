"""A model folder: weights, architecture and tokenizer of a model that was trained somewhere."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from anyorder.core import AttentionBackend, CheckpointError

from .architecture import Architecture
from .files import read_json, read_safetensors, whole_folder
from .transformer_xl import TransformerXL

BACKBONE, LM_BIAS = "backbone.", "heads.loss.bias"
"""Where the backbone and the output bias of a language model stand in a run's checkpoints."""

FORMAT = 1
"""Version of the layout. A reader refuses a later one."""

WEIGHTS, OPTIMIZER, ABOUT, TOKENIZER = "model.safetensors", "optimizer.safetensors", "model.json", "spiece.model"


@dataclass(frozen=True, kw_only=True)
class Pretrained:
    """A model, read whole.

    Attributes:
        architecture: of the backbone.
        state: weights by the names of a run's checkpoints: ``backbone.*``, ``heads.loss.bias``, and heads of
            fine-tuned models (``heads.summary.*`` and the like).
        tokenizer: the serialised SentencePiece model.
        tokenizer_settings: ``style``, ``lower`` and ``keep_accents`` of ``anyorder.data.Tokenizer``.
        source: where it comes from, in words.
        config: settings of transformers' configuration that mean nothing here, kept for the way back.
        optimizer: state of the optimiser by weight's name and slot (``NAME/exp_avg``), where there is one.
        notes: what the user should know of the import.
    """

    architecture: Architecture
    state: Mapping[str, Tensor] = field(repr=False)
    tokenizer: bytes = field(repr=False)
    tokenizer_settings: Mapping[str, Any]
    source: str
    config: Mapping[str, Any] = field(default_factory=dict)
    optimizer: Mapping[str, Tensor] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_whole(self.architecture, self.state, source=self.source)

    def backbone(self, *, attention: AttentionBackend | None = None) -> TransformerXL:
        """The backbone with these weights, in evaluation mode and float32."""
        model = self.architecture.build(attention=attention)
        model.load_state_dict(self.part(BACKBONE))
        return model.eval()

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The weights under a prefix such as ``heads.summary.``, without it."""
        return {name.removeprefix(prefix): value for name, value in self.state.items() if name.startswith(prefix)}

    def save(self, folder: Path) -> None:
        """Write the folder: there whole or not at all.

        Raises:
            CheckpointError: something is there already.
        """
        with whole_folder(folder) as new:
            save_file(_apart(self.state), new / WEIGHTS)
            if self.optimizer:
                save_file(_apart(self.optimizer), new / OPTIMIZER)
            (new / TOKENIZER).write_bytes(self.tokenizer)
            about = {
                "format": FORMAT,
                "architecture": self.architecture.to_json(),
                "tokenizer": {**self.tokenizer_settings, "sha256": hashlib.sha256(self.tokenizer).hexdigest()},
                "source": self.source,
                "transformers": dict(self.config),
                "notes": list(self.notes),
                "files": {file.name: _fingerprint(file) for file in sorted(new.iterdir())},
            }
            (new / ABOUT).write_text(json.dumps(about, indent=2) + "\n")

    @staticmethod
    def architecture_in(folder: Path) -> Architecture:
        """The architecture alone, without reading weights. Raises ``CheckpointError`` where there is none."""
        about = _about(folder)
        return Architecture.from_json(about["architecture"], source=str(folder / ABOUT))

    @classmethod
    def load(cls, folder: Path) -> Pretrained:
        """Read a folder and verify every file.

        Raises:
            CheckpointError: not a model folder, or a file is missing, altered or of a later format.
        """
        about = _about(folder)
        for name, expected in about["files"].items():
            file = folder / name
            if not file.is_file():
                raise CheckpointError(f"{file} is missing")
            if _fingerprint(file) != expected:
                raise CheckpointError(f"{file} has been altered or cut short since it was written; import it again")
        settings = dict(about["tokenizer"])
        settings.pop("sha256", None)
        return cls(
            architecture=Architecture.from_json(about["architecture"], source=str(folder / ABOUT)),
            state=read_safetensors(folder / WEIGHTS),
            tokenizer=(folder / TOKENIZER).read_bytes(),
            tokenizer_settings=settings,
            source=about["source"],
            config=about.get("transformers", {}),
            optimizer=read_safetensors(folder / OPTIMIZER) if OPTIMIZER in about["files"] else {},
            notes=tuple(about.get("notes", ())),
        )


def require_whole(architecture: Architecture, state: Mapping[str, Tensor], *, source: str) -> None:
    """Raise ``CheckpointError`` where a weight of the backbone is missing or misshapen, or tied biases differ."""
    with torch.device("meta"):
        wanted = {BACKBONE + name: tensor.shape for name, tensor in architecture.build().state_dict().items()}
    problems = [f"{name} is missing" for name in wanted if name not in state]
    problems += [
        f"{name} is {list(state[name].shape)} and not {list(shape)}"
        for name, shape in wanted.items()
        if name in state and state[name].shape != shape
    ]
    problems += [
        f"{name} has no place in this architecture"
        for name in state
        if name.startswith(BACKBONE) and name not in wanted
    ]
    if problems:
        more = f", and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise CheckpointError(f"{source}: the weights are not whole: {', '.join(problems[:3])}{more}")
    if not architecture.untie_biases:
        for leaf in ("r_w_bias", "r_r_bias", "r_s_bias"):
            layers = [value for name, value in state.items() if name.startswith(BACKBONE) and name.endswith(leaf)]
            if any(not torch.equal(layers[0], other) for other in layers[1:]):
                raise CheckpointError(
                    f"{source}: {leaf} differs between layers, which a model with tied biases cannot have"
                )


def _about(folder: Path) -> dict[str, Any]:
    about = read_json(folder / ABOUT)
    if about.get("format") != FORMAT:
        raise CheckpointError(f"{folder / ABOUT} has format {about.get('format')!r}; this version reads {FORMAT}")
    if lacking := sorted({"architecture", "tokenizer", "source", "files"} - set(about)):
        raise CheckpointError(f"{folder / ABOUT} is damaged: it has no {lacking[0]!r}")
    return about


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Each tensor with storage of its own, as safetensors wants it (tied biases share theirs)."""
    return {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}


def _fingerprint(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"size": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
