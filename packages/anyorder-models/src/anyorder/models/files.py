"""Reading and writing the files of model folders."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from anyorder.core import CheckpointError


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object. Raises ``CheckpointError`` where there is none."""
    try:
        tree = json.loads(path.read_bytes())
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged: {error}") from None
    if not isinstance(tree, dict):
        raise CheckpointError(f"{path} is damaged: it is no JSON object")
    return tree


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file. Raises ``CheckpointError`` where it is missing or damaged."""
    try:
        tensors: dict[str, Tensor] = load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from None
    return tensors


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A folder to fill, which becomes ``path`` when the block ends and vanishes if it raises.

    Raises:
        CheckpointError: ``path`` exists.
    """
    if path.exists():
        raise CheckpointError(f"{path} exists already; choose another folder, or remove it yourself")
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".unfinished-{path.name}-{os.getpid()}")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir()
    try:
        yield beside
        for file in (*beside.iterdir(), beside):
            _fsync(file)
        beside.rename(path)
        _fsync(path.parent)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
