"""What a recipe comes to: its parents' values under its own, then those of the command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from anyorder.core import RecipeError

from .source import Node, Source, parse_yaml, read_yaml

__all__ = ["merge", "override", "read_with_parents"]


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


def read_with_parents(path: Path, *, below: tuple[Path, ...] = ()) -> Node:
    """Read a recipe and what it extends, the nearest over the farthest.

    Args:
        path: the recipe.
        below: the recipes that led here, to refuse a circle.
    """
    node = read_yaml(path)
    extends = node.value.pop("extends", None)
    if extends is None or extends.value is None:
        return node
    where = extends.source.text
    if not isinstance(extends.value, str):
        raise RecipeError("a recipe has one parent, the path of a file", path="extends", source=where)
    parent = path.parent / extends.value
    chain = (*below, path.resolve())
    if parent.resolve() in chain:
        names = " -> ".join(item.name for item in (*chain, parent.resolve()))
        raise RecipeError(f"recipes extend each other in a circle: {names}", path="extends", source=where)
    if not parent.is_file():
        raise RecipeError(f"there is no file {extends.value!r} next to it", path="extends", source=where)
    return merge(read_with_parents(parent, below=chain), node)


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
