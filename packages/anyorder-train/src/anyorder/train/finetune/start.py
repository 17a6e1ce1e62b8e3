"""What fine-tuning starts from: a run, or a model folder that an import made."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anyorder.core import AttentionRequest, CheckpointError
from anyorder.data import Tokenizer
from anyorder.models import BACKBONE, Architecture, Pretrained, TransformerXL

from ..backend import AutoBackend, require
from ..checkpoint import latest
from ..fit_result import CHECKPOINTS
from ..recipe import Call, load_recipe
from ..rows import open_corpus
from ..run import RECIPE

__all__ = ["Start"]

MODEL = "model.json"
"""What tells a model folder from a run's."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """Pretrained weights, and the tokenizer that goes with them.

    Attributes:
        architecture: of the backbone.
        weights: of the backbone.
        tokenizer: with which it was trained.
        source: where it comes from, in words.
    """

    architecture: Architecture
    weights: Mapping[str, Tensor]
    tokenizer: Tokenizer
    source: str

    @classmethod
    def load(cls, folder: Path) -> Start:
        """Read a model folder, or the newest whole checkpoint of a run.

        Raises:
            CheckpointError: neither is there, or it is damaged.
        """
        if (folder / MODEL).is_file():
            model = Pretrained.load(folder)
            tokenizer = Tokenizer(model.tokenizer, name=str(folder), **model.tokenizer_settings)
            weights = model.part(BACKBONE)
            return cls(architecture=model.architecture, weights=weights, tokenizer=tokenizer, source=model.source)
        if not (folder / RECIPE).is_file():
            raise CheckpointError(f"{folder} is neither a run's folder (no {RECIPE}) nor a model's (no {MODEL})")
        found = latest(folder / CHECKPOINTS)
        if found is None:
            raise CheckpointError(f"{folder} has no checkpoint yet")
        with warnings.catch_warnings():  # what the recipe warns of was said when it was trained
            warnings.simplefilter("ignore")
            recipe = load_recipe(folder / RECIPE)
        data = recipe.sections["data"]
        corpus = open_corpus(data.get("corpus"), vocab_size=data.get("vocab_size"))
        return cls(
            architecture=architecture_of(recipe.sections["model"], vocab_size=corpus.vocab.size),
            weights={
                name.removeprefix(BACKBONE): value for name, value in found.model().items() if name.startswith(BACKBONE)
            },
            tokenizer=corpus.tokenizer,
            source=f"the run {recipe.name!r} after {found.step:,} steps",
        )

    def backbone(self, *, dropout: float, device: torch.device) -> TransformerXL:
        """The backbone, to be trained on a device with dropout, attention weights included.

        Raises:
            CheckpointError: the weights are not of this architecture.
        """
        shape = replace(self.architecture, dropout=dropout, attention_dropout=dropout)
        request = AttentionRequest(
            device=device,
            dtype=torch.float32,
            training=True,
            bias=bool(shape.biases),
            bias_grad=bool(shape.biases),
            dropout=dropout,
            head_dim=shape.d_head,
        )
        model = shape.build(attention=require(AutoBackend(), request))
        try:
            model.load_state_dict(dict(self.weights))
        except RuntimeError as error:
            raise CheckpointError(f"{self.source}: the weights are of another model: {error}") from None
        return model.to(device)


def architecture_of(model: Call, *, vocab_size: int) -> Architecture:
    """The architecture of a recipe's ``model`` section.

    Raises:
        CheckpointError: a position bias has settings of its own, for which a model folder has no place.
    """
    values: dict[str, Any] = {name.name: model.get(name.name) for name in fields(Architecture)}
    values |= {"vocab_size": vocab_size, "d_head": values["d_head"] or values["d_model"] // values["n_head"]}
    names = []
    for bias in model.arguments["biases"]:
        if bias.arguments or bias.type is None or "." in bias.type:
            raise CheckpointError(
                f"the run has a position bias of its own ({bias.type}), and only installed ones without settings can "
                "be fine-tuned"
            )
        names.append(bias.type)
    return Architecture(**values | {"biases": tuple(names)})
