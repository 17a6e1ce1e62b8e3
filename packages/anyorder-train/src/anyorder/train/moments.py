"""Moments of Adam that were imported with a model, for an optimiser that goes on with them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from anyorder.core import CheckpointError

from .state_tensors import load_optimizer, trained_names
from .xlnet_adam import OfficialAdam

__all__ = ["Moments"]

_SLOTS = ("exp_avg", "exp_avg_sq", "step")


@dataclass(frozen=True, kw_only=True)
class Moments:
    """What the official optimiser knew when a checkpoint was written (``anyorder import tf --optimizer``).

    Attributes:
        tensors: by weight and slot: ``NAME/exp_avg``, ``NAME/exp_avg_sq`` and ``NAME/step``.
        source: the model folder.
    """

    tensors: Mapping[str, Tensor]
    source: Path

    def give(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> str:
        """Let an optimiser of the same kind begin with them. Weights that have none begin without.

        Returns:
            one line: what was taken and what was not.

        Raises:
            CheckpointError: moments of another shape than their weight.
        """
        if not isinstance(optimizer, OfficialAdam):
            return (
                f"the optimiser's moments in {self.source} are left: only optimizer.type xlnet_adam goes on with them"
            )
        names = trained_names(model, optimizer)
        parameters = dict(model.named_parameters(remove_duplicate=False))
        stored = {key.rpartition("/")[0] for key in self.tensors}
        whole = {name for name in stored if all(f"{name}/{slot}" in self.tensors for slot in _SLOTS)}
        taken = [name for name in names if name in whole]
        chosen = {f"{name}/{slot}": self.tensors[f"{name}/{slot}"] for name in taken for slot in _SLOTS}
        for key, tensor in chosen.items():
            name, _, slot = key.rpartition("/")
            if slot != "step" and tensor.shape != parameters[name].shape:
                shapes = f"{list(tensor.shape)} there and {list(parameters[name].shape)} here"
                raise CheckpointError(f"{self.source}: the moment {key} is {shapes}; import the checkpoint again")
        load_optimizer(model, optimizer, chosen, source=self.source)
        step = max((int(self.tensors[f"{name}/step"]) for name in taken), default=0)
        said = f"the optimiser goes on from step {step} of {self.source}, with the moments of {len(taken)} weights"
        if fresh := sorted(set(names) - whole):
            said += f"; {_some(fresh)} had none"
        if left := sorted(stored - parameters.keys()):
            said += f"; those of {_some(left)} are left, since nothing here trains them"
        return said


def _some(names: Collection[str]) -> str:
    shown = list(names)[:3]
    return ", ".join(shown) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
