"""Weights as transformers saves them."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from anyorder.core import CheckpointError
from anyorder.models.files import read_json, read_safetensors


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The weights that transformers saved in a folder, in one file or in several.

    Raises:
        CheckpointError: there are none, a file of several is missing, or all there is is pickled.
    """
    one, several = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if one.is_file():
        return read_safetensors(one)
    if several.is_file():
        weights: dict[str, Tensor] = {}
        places = read_json(several).get("weight_map", {})
        for name in sorted(set(places.values())):
            if Path(name).name != name or not (folder / name).is_file():
                raise CheckpointError(f"{folder / name} is missing, and {several} needs it")
            weights |= read_safetensors(folder / name)
        if lacking := sorted(set(places) - set(weights)):
            raise CheckpointError(f"{several} names {lacking[0]}, which is in none of the files")
        return weights
    if pickled := sorted([*folder.glob("pytorch_model*.bin"), *folder.glob("*.ckpt"), *folder.glob("tf_model.h5")]):
        raise CheckpointError(
            f"{pickled[0]} is not read: such a file can run code. Save it again as safetensors: "
            "transformers.AutoModelForCausalLM.from_pretrained(OLD).save_pretrained(NEW)"
        )
    raise CheckpointError(f"{folder} holds no model.safetensors")
