"""Opening what a command calls MODEL: a run's folder, or a model folder that an import made."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import torch

from anyorder.core import CheckpointError, Vocab, find
from anyorder.data import Tokenizer
from anyorder.models import ABOUT, LM_BIAS, Pretrained
from anyorder.train.objective import Objective
from anyorder.train.run import RECIPE, load_run

IMPORTED_LENGTH = 512
"""Tokens of a window for imported models: the length of XLNet's pretraining."""


@dataclass(frozen=True, kw_only=True)
class OpenModel:
    """A model to ask.

    Attributes:
        objective: in evaluation mode.
        tokenizer: with which it was trained.
        length: tokens of a window that it is used to.
    """

    objective: Objective
    tokenizer: Tokenizer
    length: int


def open_model(folder: Path, *, device: str = "auto") -> OpenModel:
    """Read a model and put it on a device.

    Raises:
        CheckpointError: the folder is neither, or damaged.
    """
    where = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device)
    if (folder / ABOUT).is_file():
        opened = _imported(folder)
    elif (folder / RECIPE).is_file():
        with warnings.catch_warnings():  # what the recipe warns of was said when it was trained
            warnings.simplefilter("ignore")
            recipe, data, objective = load_run(folder)
        length = recipe.sections["data"].get("length")
        opened = OpenModel(objective=objective, tokenizer=data.corpus.tokenizer, length=length)
    elif (folder / "config.json").is_file():
        raise CheckpointError(
            f"{folder} is a folder of transformers; import it first: anyorder import hf {folder} --out X"
        )
    elif any(folder.glob("*.index")):
        raise CheckpointError(
            f"{folder} is a TensorFlow checkpoint; import it first: anyorder import tf {folder} --out X"
        )
    else:
        raise CheckpointError(f"{folder} is neither a run's folder (no {RECIPE}) nor a model's (no {ABOUT})")
    opened.objective.to(where)
    return opened


def _imported(folder: Path) -> OpenModel:
    """A permutation language model around the weights: what XLNet was trained as."""
    model = Pretrained.load(folder)
    tokenizer = Tokenizer(model.tokenizer, name=str(folder), **model.tokenizer_settings)
    if LM_BIAS not in model.state:
        warnings.warn(f"{folder} has no language-model head, so its output bias is taken as zero", stacklevel=3)
    head = find("loss", "cross_entropy")(vocab_size=model.architecture.vocab_size)
    head.load_state_dict({**head.state_dict(), **model.part("heads.loss.")})
    objective = Objective(
        order=find("order", "permutation")(),
        masks=find("masks", "two_stream")(),
        heads={"loss": head},
        backbone=model.backbone(),
        vocab=_vocab_of(tokenizer, size=model.architecture.vocab_size),
    )
    return OpenModel(objective=objective.eval(), tokenizer=tokenizer, length=IMPORTED_LENGTH)


def _vocab_of(tokenizer: Tokenizer, *, size: int) -> Vocab:
    """The tokenizer's special ids, with as many ids as the embedding has rows."""
    return Vocab(**{**vars(tokenizer.vocab), "size": size})
