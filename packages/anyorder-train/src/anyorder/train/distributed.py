"""The processes that share a run: one alone, or several under torchrun."""

from __future__ import annotations

import atexit
import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from anyorder.core import RecipeError

__all__ = ["Team"]


@dataclass(frozen=True, kw_only=True)
class Team:
    """This process's place among all, and what they do together. Alone, everything is the identity."""

    rank: int
    size: int
    device: torch.device

    @classmethod
    def join(cls, device: str = "auto") -> Team:
        """Join the processes that torchrun started (gloo on the CPU, nccl on GPUs), or be one alone."""
        size, local = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("LOCAL_RANK", "0"))
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        if device.startswith("cuda") and not torch.cuda.is_available():
            raise RecipeError(f"device is {device!r} but no CUDA device is available; use 'cpu'", path="train.device")
        if device.partition(":")[0] not in ("cpu", "cuda"):
            raise RecipeError(f"device is {device!r}; allowed are cpu, cuda and auto", path="train.device")
        place = torch.device("cuda", local) if device == "cuda" else torch.device(device)
        if size == 1:
            return cls(rank=0, size=1, device=place)
        if place.type == "cuda":
            torch.cuda.set_device(place)
        if not dist.is_initialized():
            dist.init_process_group("nccl" if place.type == "cuda" else "gloo")
            atexit.register(dist.destroy_process_group)
        return cls(rank=dist.get_rank(), size=dist.get_world_size(), device=place)

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes and speaks."""
        return self.rank == 0

    def sum(self, value: Tensor) -> Tensor:
        """The sum over all processes, on this process's device."""
        value = value.to(self.device)
        if self.size > 1:
            value = value.clone()
            dist.all_reduce(value)
        return value

    def join_rows(self, value: Tensor) -> Tensor:
        """Rows of all processes, which have equally many, in the order of ranks."""
        if self.size == 1:
            return value
        parts = [torch.empty_like(value) for _ in range(self.size)]
        dist.all_gather(parts, value.contiguous())
        return torch.cat(parts)

    def wait(self) -> None:
        """Wait until every process has come here."""
        if self.size > 1:
            dist.barrier()
