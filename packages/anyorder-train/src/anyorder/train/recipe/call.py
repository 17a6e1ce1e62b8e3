"""A constructor and its checked arguments: what a mapping of a recipe stands for."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from anyorder.core import (
    SEAMS,
    AnyorderError,
    AttentionBackend,
    LossHead,
    MaskBuilder,
    Memory,
    OrderSampler,
    PluginError,
    PositionBias,
    RecipeError,
    available,
    did_you_mean,
    find,
)

from .signature import REQUIRED, Parameter, admits_null, coerce, describe, signature, words
from .source import Node

__all__ = ["Call", "Factory", "check", "check_part", "unknown_key", "wrong_type"]

_PLAIN_TYPES = (dict, list, tuple, str, int, float, bool, Path)

_SEAM_OF_PROTOCOL = {
    OrderSampler: "order",
    MaskBuilder: "masks",
    AttentionBackend: "attention",
    PositionBias: "positions",
    Memory: "memory",
    LossHead: "loss",
}


@dataclass(frozen=True, kw_only=True)
class Call:
    """A constructor with arguments that fit its signature, ready to be called.

    Attributes:
        target: the class or function.
        path: where it stands in the recipe.
        type: the name of the part, or None where the section has only one constructor.
        node: the mapping it was read from.
        arguments: those the recipe gives, each a value, or a ``Call`` of a nested part.
        reserved: names of arguments that the recipe need not or must not give.
    """

    target: Callable[..., Any]
    path: str
    type: str | None
    node: Node
    arguments: Mapping[str, Any]
    reserved: frozenset[str] = frozenset()

    def build(self, **context: Any) -> Any:
        """Call the constructor.

        Args:
            context: values known only now (``vocab_size``, ``d_model``), for the constructors that ask for them.

        Raises:
            RecipeError: the constructor refuses a value; the error names the place in the recipe.
        """
        arguments = {name: _built(value, context) for name, value in self.arguments.items()}
        wanted, _ = signature(self.target)
        given = {name: value for name, value in context.items() if name in wanted and name not in arguments}
        try:
            return self.target(**given, **arguments)
        except ValueError as error:
            raise self.refusal(error) from error

    def refusal(self, error: ValueError) -> RecipeError:
        """A constructor's complaint, as an error at the place in the recipe that it is about."""
        if isinstance(error, AnyorderError) and not isinstance(error, RecipeError):
            return RecipeError(str(error), path=self.path, source=self.node.source.text)
        problem = error.problem if isinstance(error, RecipeError) else str(error)
        words = problem.replace("'", " ").replace(",", " ").replace(":", " ").split()
        wanted, _ = signature(self.target)
        last = error.path.rpartition(".")[2] if isinstance(error, RecipeError) else ""
        named = last if last in wanted else next((word for word in words if word in wanted), None)
        path = f"{self.path}.{named}" if named else self.path
        return RecipeError(problem, path=path, source=self.where(named))

    def where(self, name: str | None = None) -> str:
        """File and line of an argument, or of the whole where the recipe does not give it."""
        entries = self.node.value if self.node.is_mapping else {}
        node = entries.get(name, self.node) if name else self.node
        return node.source.text

    def get(self, name: str) -> Any:
        """The value of an argument, given or default; None if there is no such argument."""
        if name in self.arguments:
            return self.arguments[name]
        parameter = signature(self.target)[0].get(name)
        return None if parameter is None or parameter.default is REQUIRED else parameter.default

    def resolved(self) -> dict[str, Any]:
        """Every argument as plain data, defaults included, so that a later default changes no old recipe."""
        tree: dict[str, Any] = {} if self.type is None else {"type": self.type}
        for name, parameter in signature(self.target)[0].items():
            if name in self.arguments:
                tree[name] = _plain(self.arguments[name])
            elif name not in self.reserved and parameter.default is not REQUIRED and _is_plain(parameter.default):
                tree[name] = _plain(parameter.default)
        for name in self.arguments.keys() - tree.keys():
            tree[name] = _plain(self.arguments[name])
        return tree


class Factory(Call):
    """A constructor that its owner calls itself, once a layer: building it binds the recipe's arguments."""

    @classmethod
    def of(cls, call: Call) -> Factory:
        return cls(**{item.name: getattr(call, item.name) for item in fields(call)})

    def build(self, **context: Any) -> Any:
        return functools.partial(self.target, **{name: _built(v, context) for name, v in self.arguments.items()})


def check(
    node: Node,
    target: Callable[..., Any],
    path: str,
    *,
    type: str | None = None,  # noqa: A002 - the recipe's own word
    reserved: Mapping[str, str] | None = None,
    context: frozenset[str] = frozenset(),
    also: Sequence[str] = (),
) -> Call:
    """Hold a mapping of a recipe against the signature of the constructor that it configures.

    Args:
        node: the mapping.
        target: the constructor.
        path: where the mapping stands in the recipe.
        type: the part's name.
        reserved: arguments that a recipe does not set, each with who does.
        context: arguments that are known later.
        also: keys that the caller has read, for the list in an error.

    Raises:
        RecipeError: an unknown key, a wrong type, a missing value.
    """
    reserved = reserved or {}
    entries = dict(node.value)
    if type is not None:
        entries.pop("type", None)
    wanted, open_ended = signature(target)
    allowed = [name for name in wanted if name not in reserved]
    shown = [*also, *(name for name in allowed if name not in context and name not in also)]
    arguments: dict[str, Any] = {}
    for name, child in entries.items():
        inner = f"{path}.{name}"
        if name in reserved and name in wanted:
            raise RecipeError(f"not for a recipe to set: {reserved[name]}", path=inner, source=child.source.text)
        if name not in wanted and not open_ended:
            raise unknown_key(name, shown, path=path, node=child, owner=type)
        parameter = wanted.get(name, Parameter(name=name, hint=Any, default=REQUIRED))
        if child.value is not None:
            arguments[name] = _convert(child, parameter, inner, context)
        elif parameter.hint is not Any and admits_null(parameter.hint):
            arguments[name] = None  # a null elsewhere takes back what a parent said
    for name in allowed:
        if wanted[name].default is REQUIRED and name not in arguments and name not in context:
            needs = f"{type!r} needs it" if type else "it is needed"
            problem = f"missing: {needs} ({describe(wanted[name].hint)})"
            raise RecipeError(problem, path=f"{path}.{name}", source=node.source.text)
    return Call(
        target=target, path=path, type=type, node=node, arguments=arguments, reserved=frozenset(reserved) | context
    )


def check_part(
    node: Node,
    seam: str,
    path: str,
    *,
    choices: Mapping[str, Callable[..., Any]] | None = None,
    reserved: Mapping[str, str] | None = None,
    context: frozenset[str] = frozenset(),
) -> Call:
    """Find the part that a mapping names by ``type``, and check the other keys against its constructor.

    A bare name is the part with all its defaults. ``choices`` are names besides those of the registry.
    """
    if isinstance(node.value, str):
        node = Node(value={"type": node}, source=node.source)
    if not node.is_mapping:
        raise wrong_type(node, path, f"a mapping with a type, such as {{type: {_example(seam, choices)}}}")
    name_node = node.value.get("type")
    if name_node is None or name_node.value is None:
        problem = f"missing: the name of the part ({_offers(seam, choices)})"
        raise RecipeError(problem, path=f"{path}.type", source=node.source.text)
    name = name_node.value
    if not isinstance(name, str):
        raise wrong_type(name_node, f"{path}.type", "the name of a part")
    target = (choices or {}).get(name)
    if target is None:
        try:
            if choices is not None and seam not in SEAMS and "." not in name:
                near = did_you_mean(name, choices)
                raise PluginError(f"no {seam} is called {name!r} (available: {', '.join(choices)}){near}")
            target = find(seam, name, folder=name_node.source.folder)
        except PluginError as error:
            raise RecipeError(str(error), path=f"{path}.type", source=name_node.source.text) from error
    return check(node, target, path, type=name, reserved=reserved, context=context)


def unknown_key(name: str, allowed: list[str], *, path: str, node: Node, owner: str | None = None) -> RecipeError:
    """The error of a key that means nothing here."""
    inner = f"{path}.{name}" if path else name
    of = f" of {owner!r}" if owner else ""
    problem = f"unknown key {name!r}; the keys{of} are {', '.join(allowed)}{did_you_mean(name, allowed)}"
    if not allowed:
        problem = f"unknown key {name!r}; {owner!r} takes none" if owner else f"unknown key {name!r}"
    return RecipeError(problem, path=inner, source=node.source.text)


def wrong_type(node: Node, path: str, expected: str) -> RecipeError:
    """The error of a value of another type than is wanted."""
    value = node.plain()
    shown = "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    return RecipeError(f"{shown} is not {expected}", path=path, source=node.source.text)


def _convert(node: Node, parameter: Parameter, path: str, context: frozenset[str]) -> Any:
    seam = parameter.name if parameter.name in SEAMS else _seam_of(parameter.hint)
    if node.is_mapping and (seam is not None or "type" in node.value):
        return check_part(node, seam or parameter.name, path, context=context)
    if seam is not None and isinstance(node.value, str):
        return check_part(node, seam, path, context=context)
    if seam is not None and isinstance(node.value, list):
        return [check_part(item, seam, f"{path}.{index}", context=context) for index, item in enumerate(node.value)]
    if node.is_mapping and inspect.isclass(parameter.hint) and not issubclass(parameter.hint, _PLAIN_TYPES):
        return check(node, parameter.hint, path, context=context)
    try:
        value = coerce(node.plain(), parameter.hint)
    except TypeError:
        near = did_you_mean(node.value, words(parameter.hint)) if isinstance(node.value, str) else ""
        raise wrong_type(node, path, describe(parameter.hint) + near) from None
    return (node.source.folder / value).resolve() if isinstance(value, Path) else value


def _seam_of(hint: Any) -> str | None:
    for leaf in (hint, *typing.get_args(hint)):
        if inspect.isclass(leaf) and leaf in _SEAM_OF_PROTOCOL:
            return _SEAM_OF_PROTOCOL[leaf]
    return None


def _names(seam: str, choices: Mapping[str, Callable[..., Any]] | None) -> list[str]:
    return [*(choices or ()), *(available(seam) if seam in SEAMS else ())]


def _offers(seam: str, choices: Mapping[str, Callable[..., Any]] | None) -> str:
    return ", ".join(_names(seam, choices)) or "your own, as my_file.Class"


def _example(seam: str, choices: Mapping[str, Callable[..., Any]] | None) -> str:
    return next(iter(_names(seam, choices)), "my_file.Class")


def _built(value: Any, context: Mapping[str, Any]) -> Any:
    if isinstance(value, Call):
        return value.build(**context)
    return [_built(item, context) for item in value] if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    if isinstance(value, Call):
        return value.resolved()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    return value if _is_plain(value) else str(getattr(value, "name", value))


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str, Path, list, tuple, dict))
