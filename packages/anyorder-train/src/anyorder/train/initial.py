"""Weights to start from: those of a model that was imported or trained elsewhere."""

from __future__ import annotations

from pathlib import Path

from anyorder.core import CheckpointError
from anyorder.data import Tokenizer
from anyorder.models import BACKBONE, Pretrained

from .moments import Moments
from .objective import Objective
from .state_tensors import load_model

__all__ = ["load_initial"]


def load_initial(objective: Objective, folder: Path, *, tokenizer: Tokenizer) -> Moments | None:
    """Copy a model folder's backbone, and its language-model head where the objective has one, into an objective.

    Heads that the folder does not have keep their fresh weights.

    Args:
        objective: of the same architecture.
        folder: what ``anyorder import`` made.
        tokenizer: of the corpus to train on.

    Returns:
        the optimiser's moments, if the folder has them.

    Raises:
        CheckpointError: no such folder, or a damaged one, or the corpus was prepared with another tokenizer.
    """
    model = Pretrained.load(folder)
    if model.tokenizer != tokenizer.model or dict(model.tokenizer_settings) != tokenizer.settings:
        lower = " --lower" if model.tokenizer_settings.get("lower") else ""
        raise CheckpointError(
            f"the corpus was prepared with another tokenizer than the model in {folder}, whose weights would mean "
            f"nothing for it; prepare the text again: anyorder prepare TEXT --out CORPUS --tokenizer "
            f"{folder / 'spiece.model'}{lower}, and name CORPUS as data.corpus"
        )
    own = objective.state_dict()
    given = {name: value for name, value in model.state.items() if name.startswith(BACKBONE) or name in own}
    kept = {name: value for name, value in own.items() if not name.startswith(BACKBONE) and name not in given}
    load_model(objective, {**kept, **given}, source=folder)
    return Moments(tensors=model.optimizer, source=folder) if model.optimizer else None
