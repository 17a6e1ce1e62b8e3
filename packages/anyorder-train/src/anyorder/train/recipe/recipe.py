"""A recipe: one run as data, checked whole before anything starts."""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anyorder.core import RecipeError

from .call import Call, unknown_key, wrong_type
from .combinations import check_combinations
from .merge import override, read_with_parents, take_scale
from .sections import SECTIONS
from .signature import coerce, describe
from .source import Node, dump_yaml

__all__ = ["Recipe", "load_recipe"]

_WATCHING = ("log_every", "eval_every", "eval_batches", "checkpoint_every", "keep", "device")
"""Settings of ``train`` that change what is seen of a run and not what comes of it."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One run: its parts and settings, each checked against the constructor that it goes to.

    Attributes:
        name: of the run.
        seed: of every draw.
        path: the file it was read from.
        tree: every setting as plain data, defaults written out.
        sections: the same as constructors with arguments, by section; see ``SECTIONS``.
        origins: where each setting was written, by dotted path.
    """

    name: str
    seed: int
    path: Path
    tree: Mapping[str, Any]
    sections: Mapping[str, Any] = field(repr=False)
    origins: Mapping[str, str] = field(repr=False)

    @property
    def digest(self) -> str:
        """Hash of what decides the result: a run can be resumed under recipes of one digest."""
        settings = {key: value for key, value in self.tree.items() if key not in ("name", "tracking")}
        settings["train"] = {key: value for key, value in self.tree["train"].items() if key not in _WATCHING}
        settings["data"] = {key: value for key, value in self.tree["data"].items() if key != "corpus"}
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]

    def dump(self) -> str:
        """The resolved recipe as YAML that reads back to the same recipe."""
        return dump_yaml(self.tree)

    def own_files(self) -> list[Path]:
        """The Python files beside the recipe that its parts come from (``type: my_file.Zigzag``)."""
        files: dict[Path, None] = {}
        for call in _calls(self.sections.values()):
            if call.type is not None and "." in call.type:
                folder = call.node.value["type"].source.folder
                file = folder / (call.type.partition(".")[0] + ".py")
                if file.is_file():
                    files[file.resolve()] = None
        return list(files)


def load_recipe(path: Path | str, *, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe, what it extends, and settings over it; check all of it.

    Args:
        path: the YAML file.
        overrides: settings such as ``optimizer.lr=1e-3``, in the order in which they apply; ``scale=NAME`` chooses
            among a recipe's ``scales``.

    Raises:
        RecipeError: one line with file and line, dotted path, value, what is allowed and the nearest name.
    """
    path = Path(path)
    scale, settings = take_scale(overrides)
    root = override(read_with_parents(path, scale=scale), settings)
    known = ["name", "seed", *SECTIONS]
    for key, node in root.value.items():
        if key not in known:
            raise unknown_key(key, known, path="", node=node)
    name = _scalar(root, "name", str, default=path.stem)
    if not re.fullmatch(r"[\w.+-]*\w[\w.+-]*", name):
        where = root.value["name"].source.text if "name" in root.value else root.source.text
        raise RecipeError(f"{name!r} is not a folder's name: letters, digits, . _ + -", path="name", source=where)
    seed = _scalar(root, "seed", int, default=1)
    sections = {key: section.read(root.value.get(key), root) for key, section in SECTIONS.items()}
    _warn_once(check_combinations(sections))
    tree: dict[str, Any] = {"name": name, "seed": seed}
    for key, section in SECTIONS.items():
        resolved = section.resolve(sections[key])
        if resolved is not None:
            tree[key] = resolved
    written = _written(root)
    origins = {at: written.get(at, "default") for at in _paths(tree)}
    return Recipe(name=name, seed=seed, path=path, tree=tree, sections=sections, origins=origins)


def _scalar(root: Node, key: str, kind: type, *, default: Any) -> Any:
    node = root.value.get(key)
    if node is None or node.value is None:
        return default
    try:
        return coerce(node.plain(), kind)
    except TypeError:
        raise wrong_type(node, key, describe(kind)) from None


def _warn_once(messages: Sequence[str]) -> None:
    for message in messages:
        warnings.warn(message, stacklevel=3)


def _calls(values: Any) -> Iterator[Call]:
    for value in values:
        if isinstance(value, Call):
            yield value
            yield from _calls(value.arguments.values())
        elif isinstance(value, Mapping):
            yield from _calls(value.values())
        elif isinstance(value, (list, tuple)):
            yield from _calls(value)


def _written(node: Node, path: str = "") -> dict[str, str]:
    """File and line of every value that is written somewhere."""
    if not node.is_mapping:
        return {path: node.source.text}
    found: dict[str, str] = {}
    for key, child in node.value.items():
        found |= _written(child, f"{path}.{key}" if path else key)
    return found


def _paths(tree: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for key, value in tree.items():
        inner = f"{path}.{key}" if path else key
        if isinstance(value, Mapping) and value:
            yield from _paths(value, inner)
        else:
            yield inner
