"""Weights, an optimiser's state and memory as tensors with names, in safetensors files and back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from anyorder.core import CheckpointError, MemoryState

__all__ = [
    "load_model",
    "load_optimizer",
    "memory_of",
    "memory_tensors",
    "optimizer_tensors",
    "read_tensors",
    "trained_names",
    "write_tensors",
]


def load_model(model: nn.Module, tensors: Mapping[str, Tensor], *, source: Path) -> None:
    """Copy weights into a model of the same names and shapes.

    Raises:
        CheckpointError: a name or a shape differs; the first few are named.
    """
    own = model.state_dict()
    problems = [f"{name} is missing" for name in own if name not in tensors]
    problems += [f"{name} is not of this model" for name in tensors if name not in own]
    problems += [
        f"{name} is {list(tensor.shape)} there and {list(own[name].shape)} here"
        for name, tensor in tensors.items()
        if name in own and tensor.shape != own[name].shape
    ]
    if problems:
        more = f", and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise CheckpointError(f"{source} is of another model: {', '.join(problems[:3])}{more}")
    model.load_state_dict(dict(tensors))


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """An optimiser's state by weight and slot, such as ``backbone.embedding.weight/exp_avg``."""
    names = trained_names(model, optimizer)
    return {
        f"{names[index]}/{slot}": torch.as_tensor(value)
        for index, slots in optimizer.state_dict()["state"].items()
        for slot, value in slots.items()
    }


def load_optimizer(
    model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], *, source: Path
) -> None:
    """Put what ``optimizer_tensors`` gave in the place of an optimiser's state.

    Raises:
        CheckpointError: a weight is none of those that the optimiser trains.
    """
    names = trained_names(model, optimizer)
    stored: dict[str, dict[str, Tensor]] = {name: {} for name in names}
    for key, tensor in tensors.items():
        name, _, slot = key.rpartition("/")
        if name not in stored:
            raise CheckpointError(f"{source} has state of {name!r}, which this model does not train")
        stored[name][slot] = tensor
    packed = optimizer.state_dict()
    packed["state"] = {index: stored[name] for index, name in enumerate(names) if stored[name]}
    optimizer.load_state_dict(packed)


def trained_names(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[str]:
    """Names of the optimiser's parameters in its own numbering."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return [names[id(parameter)] for group in optimizer.param_groups for parameter in group["params"]]


def memory_tensors(memory: MemoryState) -> dict[str, Tensor]:
    tensors = {f"layers.{index}": layer for index, layer in enumerate(memory.layers)}
    tensors |= {"position": memory.position, "doc": memory.doc}
    return tensors if memory.segment is None else tensors | {"segment": memory.segment}


def memory_of(tensors: Mapping[str, Tensor], *, contiguous: bool) -> MemoryState:
    """What ``memory_tensors`` took apart."""
    return MemoryState(
        layers=tuple(tensors[f"layers.{i}"] for i in range(sum(key.startswith("layers.") for key in tensors))),
        position=tensors["position"],
        doc=tensors["doc"],
        segment=tensors.get("segment"),
        contiguous=contiguous,
    )


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    # safetensors refuses tensors that share storage (tied weights, expanded positions): each gets its own
    save_file({name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}, path)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Raises ``CheckpointError`` where there is no such file, or it is damaged."""
    try:
        tensors: dict[str, Tensor] = load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}); use an earlier checkpoint") from None
    return tensors
