"""Finding parts by name: an entry point, or a dotted name such as ``my_file.Zigzag``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from .errors import PluginError, did_you_mean

SEAMS = {
    "order": "anyorder.order_samplers",
    "targets": "anyorder.target_choices",
    "masks": "anyorder.mask_builders",
    "attention": "anyorder.attention_backends",
    "positions": "anyorder.position_biases",
    "memory": "anyorder.memories",
    "loss": "anyorder.loss_heads",
}
"""Recipe key of each seam, and the entry point group in which packages offer parts for it."""


def available(seam: str) -> dict[str, list[EntryPoint]]:
    """The names offered for a seam, each with every entry point that claims it. Nothing is imported."""
    found: dict[str, list[EntryPoint]] = {}
    for point in _scan(_import_path())[SEAMS[seam]]:
        claims = found.setdefault(point.name, [])
        if all((point.value, _origin(point)) != (other.value, _origin(other)) for other in claims):
            claims.append(point)
    return dict(sorted(found.items()))


@lru_cache(maxsize=4)
def _scan(_path: tuple[tuple[str, int], ...]) -> Mapping[str, tuple[EntryPoint, ...]]:
    """The entry points of each of our groups on this import path: what every installed package's metadata says."""
    points = entry_points()
    return {group: tuple(points.select(group=group)) for group in SEAMS.values()}


def _import_path() -> tuple[tuple[str, int], ...]:
    """The folders that are searched and when each last changed, which installing or removing a package does."""
    return tuple((folder, _changed(Path(folder))) for folder in sys.path)


def _changed(folder: Path) -> int:
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0


def find(seam: str, name: str, *, folder: Path | None = None) -> Callable[..., Any]:
    """Load the part called ``name``.

    Args:
        seam: a key of ``SEAMS``.
        name: an entry point's name, or a dotted name, looked up in ``folder`` (the recipe's) before the import path.

    Raises:
        PluginError: no such part, two parts of that name, or a part that does not import.
    """
    if "." in name:
        return _find_dotted(name, folder=folder)
    offers = available(seam)
    claims = offers.get(name, [])
    if not claims:
        allowed = ", ".join(offers) or "none installed"
        raise PluginError(
            f"no {seam} part is called {name!r} (available: {allowed}); a part of your own is named by file and class, "
            f"such as my_file.Zigzag{did_you_mean(name, offers)}"
        )
    if len(claims) > 1:
        owners = " and ".join(sorted(f"{_origin(point)} ({point.value})" for point in claims))
        raise PluginError(f"two {seam} parts are called {name!r}: {owners}; uninstall one or use its dotted name")
    point = claims[0]
    try:
        part: Callable[..., Any] = point.load()
    except Exception as error:
        raise PluginError(
            f"the {seam} part {name!r} of {_origin(point)} ({point.value}) does not import: "
            f"{type(error).__name__}: {error}"
        ) from error
    return part


def _origin(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "an unnamed distribution"


def _find_dotted(name: str, *, folder: Path | None) -> Callable[..., Any]:
    module_name, _, attribute = name.rpartition(".")
    with _importable(folder):
        try:
            module = importlib.import_module(module_name)
        except Exception as error:
            where = f" (looked in {folder} and on the import path)" if folder is not None else ""
            raise PluginError(f"{name!r} does not import{where}: {type(error).__name__}: {error}") from error
    if folder is not None and _is_hidden(module, folder):
        raise PluginError(
            f"{module_name!r} is a module of {folder} and one already imported from "
            f"{getattr(module, '__file__', None) or 'Python itself'}; rename your file"
        )
    part = getattr(module, attribute, None)
    if not callable(part):
        offered = [key for key, value in vars(module).items() if isinstance(value, type)]
        raise PluginError(f"{module_name!r} has no class {attribute!r}{did_you_mean(attribute, offered)}")
    found: Callable[..., Any] = part
    return found


_homes: dict[str, Path] = {}
"""Modules imported from recipes' folders, so that the next folder's module of the same name is not taken for it."""


@contextmanager
def _importable(folder: Path | None) -> Iterator[None]:
    if folder is None:
        yield
        return
    folder = folder.resolve()
    for name in [name for name, home in _homes.items() if home != folder]:
        del _homes[name]
        sys.modules.pop(name, None)
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            if _file_of(sys.modules[name]) in _files(name, folder):
                _homes[name] = folder


def _is_hidden(module: ModuleType, folder: Path) -> bool:
    """Whether the folder has a module of this name, but another one was imported."""
    files = _files(module.__name__, folder.resolve())
    return any(file.is_file() for file in files) and _file_of(module) not in files


def _files(name: str, folder: Path) -> tuple[Path, Path]:
    place = folder.joinpath(*name.split("."))
    return place.with_name(place.name + ".py"), place / "__init__.py"


def _file_of(module: ModuleType) -> Path | None:
    file = getattr(module, "__file__", None)
    return None if file is None else Path(file).resolve()
