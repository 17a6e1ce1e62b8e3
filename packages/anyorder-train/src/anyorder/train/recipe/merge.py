"""What a recipe comes to: its parents' values under its own, then those of the command line."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path

from anyorder.core import RecipeError, did_you_mean

from .source import Node, Source, parse_yaml, read_yaml

__all__ = ["merge", "override", "read_with_parents", "take_scale"]


def merge(parent: Node, child: Node) -> Node:
    """Lay ``child`` over ``parent``: mappings key by key, everything else whole.

    A mapping that names another ``type`` than its parent replaces it whole, since the keys of one part mean nothing to
    another. A null stays in the tree as a null, which counts as absent.
    """
    if not (parent.is_mapping and child.is_mapping) or _types_differ(parent, child):
        return child
    entries = dict(parent.value)
    for key, node in child.value.items():
        entries[key] = merge(entries[key], node) if key in entries else node
    return Node(value=entries, source=child.source)


def _types_differ(parent: Node, child: Node) -> bool:
    old, new = parent.value.get("type"), child.value.get("type")
    return old is not None and new is not None and old.value != new.value


def read_with_parents(path: Path, *, scale: Node | None = None) -> Node:
    """Read a recipe and what it extends, the nearest over the farthest.

    A recipe may have ``scales``, a mapping of names to settings. Those of one name lie over the recipe's own settings
    and under those of what extends it. The name is ``scale``, as the command line or the nearest recipe has it.

    Args:
        path: the recipe.
        scale: the name, if the command line has it.
    """
    family = _family(path)
    names = [own for node in family if (own := node.value.pop("scale", None)) is not None]
    scales = [node.value.pop("scales", None) for node in family]
    chosen = scale or next(iter(names), None)
    if chosen is not None and not any(scales):
        raise RecipeError("neither the recipe nor a parent has scales", path="scale", source=chosen.source.text)
    sized = [node if own is None else _at_scale(node, own, chosen) for node, own in zip(family, scales, strict=True)]
    return functools.reduce(merge, reversed(sized))


def _family(path: Path) -> list[Node]:
    """A recipe, its parent, its parent's parent and so on."""
    family, chain = [read_yaml(path)], [path]
    while True:
        extends = family[-1].value.pop("extends", None)
        if extends is None or extends.value is None:
            return family
        where = extends.source.text
        if not isinstance(extends.value, str):
            raise RecipeError("a recipe has one parent, the path of a file", path="extends", source=where)
        parent = chain[-1].parent / extends.value
        if parent.resolve() in [item.resolve() for item in chain]:
            names = " -> ".join(item.name for item in (*chain, parent))
            raise RecipeError(f"recipes extend each other in a circle: {names}", path="extends", source=where)
        if not parent.is_file():
            raise RecipeError(f"there is no file {extends.value!r} next to it", path="extends", source=where)
        family.append(read_yaml(parent))
        chain.append(parent)


def _at_scale(node: Node, scales: Node, scale: Node | None) -> Node:
    if not scales.is_mapping:
        raise RecipeError("not a mapping of names to settings", path="scales", source=scales.source.text)
    names = ", ".join(scales.value)
    if scale is None or scale.value is None:
        raise RecipeError(f"missing: which of {names}", path="scale", source=scales.source.text)
    if scale.value not in scales.value:
        near = did_you_mean(str(scale.value), scales.value)
        problem = f"no scale is called {scale.value!r}; there are {names}{near}"
        raise RecipeError(problem, path="scale", source=scale.source.text)
    chosen = scales.value[scale.value]
    return node if chosen.value is None else merge(node, chosen)


def take_scale(settings: Sequence[str]) -> tuple[Node | None, list[str]]:
    """The ``scale=NAME`` among settings of the command line, the last of them, and the other settings."""
    chosen, others = None, []
    for setting in settings:
        name, equals, text = setting.partition("=")
        if name != "scale" or not equals:
            others.append(setting)
            continue
        source = Source(text=f"--set {setting}", folder=Path.cwd())
        chosen = parse_yaml(text, name=source.text, folder=source.folder, lines=False)
    return chosen, others


def override(tree: Node, settings: Sequence[str]) -> Node:
    """Lay ``a.b.c=value`` settings over a recipe, in their order; each value is YAML."""
    for setting in settings:
        source = Source(text=f"--set {setting}", folder=Path.cwd())
        path, equals, text = setting.partition("=")
        if not equals or not re.fullmatch(r"\w+(\.\w+)*", path):
            raise RecipeError("a setting is written path.to.key=value", source=source.text)
        if not text.strip():
            raise RecipeError("the value is missing; null removes a key", path=path, source=source.text)
        if path == "extends":
            raise RecipeError("only a file can extend another", path=path, source=source.text)
        node = parse_yaml(text, name=source.text, folder=source.folder, lines=False)
        for key in reversed(path.split(".")):
            node = Node(value={key: node}, source=source)
        tree = merge(tree, node)
    return tree
