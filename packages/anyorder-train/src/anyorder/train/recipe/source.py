"""YAML that remembers the line of every value, and refuses what YAML reads otherwise than people do."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from anyorder.core import RecipeError

__all__ = ["Node", "Source", "dump_yaml", "parse_yaml", "read_yaml"]


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a value was written.

    Attributes:
        text: as errors name it: ``plm.yaml:12`` or ``--set optimizer.lr=x``.
        folder: what relative paths and dotted part names start from.
    """

    text: str
    folder: Path


@dataclass(frozen=True, kw_only=True)
class Node:
    """A value of a recipe: a scalar, a dict of nodes or a list of nodes, and where it stands."""

    value: Any
    source: Source

    @property
    def is_mapping(self) -> bool:
        return isinstance(self.value, dict)

    def plain(self) -> Any:
        """The value without its sources; null entries of mappings are left out."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items() if node.value is not None}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value


class _Loader(yaml.SafeLoader):
    """The scalars of YAML 1.2: ``1e-3`` is a number, ``010`` is ten, and no date or base-60 number is guessed."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  (the base class declares it this way)

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "aliases are not read; use extends", mark)
        node: yaml.Node | None = super().compose_node(parent, index)
        return node


_AMBIGUOUS = "!ambiguous"
_TAG = "tag:yaml.org,2002:"
for _tag, _pattern, _first in (
    (_TAG + "null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    (_TAG + "bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    (_TAG + "int", r"[-+]?[0-9]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    (
        _TAG + "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
    (_AMBIGUOUS, r"(?i:yes|no|on|off)", list("yYnNoO")),
):
    _Loader.add_implicit_resolver(_tag, re.compile(rf"^(?:{_pattern})$"), _first)


class _Dumper(yaml.SafeDumper):
    """Quotes what the reader above would not read as text."""

    yaml_implicit_resolvers = _Loader.yaml_implicit_resolvers

    def ignore_aliases(self, data: Any) -> bool:
        return True


def dump_yaml(tree: Mapping[str, Any]) -> str:
    """Plain data as YAML that ``parse_yaml`` reads back to the same."""
    text: str = yaml.dump(dict(tree), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    return text


def read_yaml(path: Path) -> Node:
    """Read a recipe file, whose top level is a mapping.

    Raises:
        RecipeError: the file is missing or is not such YAML, with the line.
    """
    name = _display(path)
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise RecipeError(f"there is no such recipe{_neighbours(path)}", source=name) from None
    except UnicodeDecodeError as error:
        raise RecipeError(f"not UTF-8 text (byte {error.start})", source=name) from None
    except IsADirectoryError:
        raise RecipeError(f"is a folder; name a recipe in it{_neighbours(path / 'x')}", source=name) from None
    except OSError as error:
        raise RecipeError(f"cannot be read: {error.strerror}", source=name) from None
    node = parse_yaml(text, name=name, folder=path.parent)
    if not node.is_mapping:
        raise RecipeError("a recipe is a mapping of sections (name, data, model, objective, ...)", source=name)
    return node


def parse_yaml(text: str, *, name: str, folder: Path, lines: bool = True) -> Node:
    """Parse one YAML value.

    Args:
        text: the YAML.
        name: what errors call it.
        folder: see ``Source``.
        lines: whether line numbers mean anything to the reader.
    """

    def at(mark: yaml.Mark | None) -> Source:
        return Source(text=f"{name}:{mark.line + 1}" if lines and mark is not None else name, folder=folder)

    loader = _Loader(text)
    try:
        root = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        problem = str(error.problem)
        if "'\\t'" in problem:
            problem = "a tab where YAML wants spaces"
        mark = error.problem_mark or error.context_mark
        raise RecipeError(f"not valid YAML: {problem}", source=at(mark).text) from None
    except yaml.YAMLError as error:
        raise RecipeError(f"not valid YAML: {str(error).splitlines()[0]}", source=name) from None
    finally:
        loader.dispose()
    if root is None:
        return Node(value=None, source=at(None))
    return _convert(root, at, path="")


def _convert(node: yaml.Node, at: Callable[[yaml.Mark], Source], *, path: str) -> Node:
    source = at(node.start_mark)
    if isinstance(node, yaml.MappingNode):
        entries: dict[str, Node] = {}
        for key_node, value_node in node.value:
            key, where = key_node.value, at(key_node.start_mark)
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag != _TAG + "str":
                shown = key if isinstance(key, str) else "a list or mapping"
                raise RecipeError(f"a key is a name, not {shown}", path=path, source=where.text)
            inner = f"{path}.{key}" if path else key
            if key in entries:
                first = f" (first at {entries[key].source.text})" if entries[key].source != where else ""
                raise RecipeError(f"the key stands here twice{first}", path=inner, source=where.text)
            # An entry stands where its key stands, which is where a reader looks for it.
            entries[key] = Node(value=_convert(value_node, at, path=inner).value, source=where)
        return Node(value=entries, source=source)
    if isinstance(node, yaml.SequenceNode):
        return Node(value=[_convert(item, at, path=path) for item in node.value], source=source)
    return Node(value=_scalar(node, source, path), source=source)


def _scalar(node: yaml.Node, source: Source, path: str) -> Any:
    text: str = node.value
    match node.tag.removeprefix(_TAG):
        case "str":
            return text
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int":
            return int(text, 16) if text.lower().startswith("0x") else int(text)
        case "float":
            return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        case "!ambiguous":
            problem = (
                f"{text!r} is a boolean to some YAML readers and a word to others; write true or false, or quote it"
            )
            raise RecipeError(problem, path=path, source=source.text)
        case tag:
            raise RecipeError(f"the YAML tag {tag!r} is not read in a recipe", path=path, source=source.text)


def _display(path: Path) -> str:
    """The path as short as it can be from here."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _neighbours(path: Path) -> str:
    if not path.parent.is_dir():
        return f" (nor a folder {_display(path.parent)})"
    names = sorted(item.name for item in path.parent.iterdir() if item.suffix in (".yaml", ".yml"))
    return f" ({_display(path.parent)}/ has {', '.join(names[:8])})" if names else ""
