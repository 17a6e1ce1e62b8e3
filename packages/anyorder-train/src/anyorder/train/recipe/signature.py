"""What a constructor takes: its own signature is its configuration."""

from __future__ import annotations

import enum
import inspect
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Union

from jsonargparse import ArgumentError, ArgumentParser

__all__ = ["REQUIRED", "Parameter", "admits_null", "coerce", "describe", "first_line", "signature", "words"]

REQUIRED: Any = inspect.Parameter.empty


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One argument of a constructor; ``default`` is ``REQUIRED`` where there is none."""

    name: str
    hint: Any
    default: Any

    def __str__(self) -> str:
        if self.default is REQUIRED:
            return f"{self.name} ({describe(self.hint)}, required)"
        return f"{self.name}={self.default!r}"


def signature(target: Callable[..., Any]) -> tuple[dict[str, Parameter], bool]:
    """The arguments of a class or function by name, and whether it takes any others (``**kwargs``)."""
    owner: Callable[..., Any] = target.__init__ if isinstance(target, type) else target  # type: ignore[misc]
    try:
        found = inspect.signature(target)
    except (TypeError, ValueError):
        return {}, True
    open_ended = False
    parameters = {}
    for name, parameter in found.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            open_ended = True
        elif parameter.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY):
            hint = _resolve(parameter.annotation, owner)
            parameters[name] = Parameter(name=name, hint=hint, default=parameter.default)
    return parameters, open_ended


def _resolve(annotation: Any, owner: Any) -> Any:
    """Evaluate a postponed annotation; one that names what was never imported is any value."""
    if annotation is inspect.Parameter.empty:
        return Any
    if not isinstance(annotation, str):
        return annotation
    scope = getattr(inspect.unwrap(owner), "__globals__", None)
    if scope is None:  # a class whose __init__ is not written in Python
        return Any
    try:
        return eval(annotation, scope)
    except Exception:
        return Any


def coerce(value: Any, hint: Any) -> Any:
    """The value as its annotation wants it (a whole number as a float, a list as a tuple, text as a path).

    Raises:
        TypeError: the value is of another type.
    """
    if hint is Any:
        return value
    # jsonargparse reads quoted "64" as a number and "yes" as a boolean, for which a recipe has no need.
    if isinstance(value, str) and not any(_takes_text(leaf) for leaf in _leaves(hint)):
        raise TypeError(value)
    if value != value:  # not a number
        raise TypeError(value)
    parser = ArgumentParser(exit_on_error=False)
    try:
        parser.add_argument("--value", type=hint)
    except ValueError:  # an annotation that jsonargparse has no reader for
        return value
    try:
        return parser.parse_object({"value": value}).value
    except ArgumentError as error:
        raise TypeError(value) from error


def admits_null(hint: Any) -> bool:
    """Whether None is a value of the annotation."""
    return any(leaf is type(None) for leaf in _leaves(hint))


def _leaves(hint: Any) -> Iterator[Any]:
    if typing.get_origin(hint) in (Union, types.UnionType):
        for inner in typing.get_args(hint):
            yield from _leaves(inner)
    else:
        yield hint


def _takes_text(leaf: Any) -> bool:
    if typing.get_origin(leaf) is Literal:
        return any(isinstance(choice, str) for choice in typing.get_args(leaf))
    return leaf not in (int, float, bool, type(None)) and typing.get_origin(leaf) is None


def words(hint: Any) -> list[str]:
    """The words that an annotation allows, where it names them."""
    found: list[str] = []
    for leaf in _leaves(hint):
        if typing.get_origin(leaf) is Literal:
            found += [str(choice) for choice in typing.get_args(leaf)]
        elif isinstance(leaf, type) and issubclass(leaf, enum.Enum):
            found += [choice.name for choice in leaf]
    return found


_WORDS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    Path: "a path",
    type(None): "null",
    Any: "any value",
}


def describe(hint: Any) -> str:
    """An annotation in words: ``a whole number or null``."""
    parts = []
    for leaf in _leaves(hint):
        origin = typing.get_origin(leaf)
        if words(leaf):
            parts.append(f"one of {', '.join(words(leaf))}")
        elif leaf in _WORDS:
            parts.append(_WORDS[leaf])
        elif isinstance(origin, type) and issubclass(origin, typing.Mapping):
            parts.append("a mapping")
        elif isinstance(origin, type) and issubclass(origin, typing.Iterable):
            inner = typing.get_args(leaf)
            number = len(inner) if origin is tuple and Ellipsis not in inner else 0
            head = f"a list of {number} entries" if number else "a list"
            parts.append(f"{head}, each {describe(inner[0])}" if inner else head)
        else:
            parts.append(getattr(leaf, "__name__", str(leaf)))
    return " or ".join(parts)


def first_line(target: Callable[..., Any]) -> str:
    """The first line of a part's docstring."""
    text = inspect.getdoc(target) or ""
    return text.partition("\n")[0]
