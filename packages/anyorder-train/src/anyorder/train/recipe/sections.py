"""The sections of a recipe, and the constructor or part that each configures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from anyorder.core import RecipeError

from ..backend import AutoBackend
from ..optimizer import AdamW
from ..rows import open_records, open_rows
from ..schedule import Schedule
from ..tracking import MLflowTracker, NoTracking
from ..trainer import Trainer
from ..xlnet_adam import XLNetAdam
from ..xlnet_schedule import XLNetSchedule
from .call import Call, check, check_part, unknown_key, wrong_type
from .model import Model
from .signature import coerce
from .source import Node

__all__ = ["SCHEDULE", "SECTIONS", "Section"]

CONTEXT = frozenset({"vocab_size", "vocab", "cls_id", "n_layer", "n_head", "d_head", "d_model"})
"""Arguments that parts may ask for and no recipe needs to say: the run knows them."""


class Section(Protocol):
    def read(self, node: Node | None, root: Node) -> Any:
        """Check what stands in the recipe (None: nothing does)."""
        ...

    def resolve(self, value: Any) -> Any:
        """The same as plain data, defaults written out; None leaves the section out."""
        ...


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A section that configures one constructor."""

    name: str
    target: Callable[..., Any]
    reserved: Mapping[str, str] = field(default_factory=dict)

    def read(self, node: Node | None, root: Node) -> Call:
        node = _mapping(node, root, self.name)
        return check(node, self.target, self.name, reserved=self.reserved)

    def resolve(self, value: Call) -> dict[str, Any]:
        return value.resolved()


@dataclass(frozen=True, kw_only=True)
class Part:
    """A section that names a part by ``type``. ``default`` is the type where the recipe says nothing."""

    name: str
    default: str
    choices: Mapping[str, Callable[..., Any]] | None = None
    reserved: Mapping[str, str] = field(default_factory=dict)

    def read(self, node: Node | None, root: Node) -> Call:
        if node is None or node.value is None:
            node = Node(value=self.default, source=root.source)
        elif node.is_mapping and "type" not in node.value and self.choices is not None:
            node = Node(value={"type": Node(value=self.default, source=node.source), **node.value}, source=node.source)
        return check_part(node, self.name, self.name, choices=self.choices, reserved=self.reserved, context=CONTEXT)

    def resolve(self, value: Call) -> dict[str, Any]:
        return value.resolved()


@dataclass(frozen=True, kw_only=True)
class Data(Part):
    """The text. A prepared corpus brings its tokenizer, so that ``vocab_size`` is none of its settings."""

    def resolve(self, value: Call) -> dict[str, Any]:
        tree = value.resolved()
        if tree.get("corpus") is not None:
            tree.pop("vocab_size", None)
        return tree


@dataclass(frozen=True, kw_only=True)
class ObjectiveParts:
    """The parts of an objective: ``order``, ``masks``, ``loss``, ``auxiliary`` losses by name, and a ``generator``."""

    name: str = "objective"

    def read(self, node: Node | None, root: Node) -> dict[str, Any]:
        node = _mapping(node, root, self.name)
        keys = ["order", "masks", "loss", "auxiliary", "generator"]
        for key, child in node.value.items():
            if key not in keys:
                raise unknown_key(key, keys, path=self.name, node=child)
        parts: dict[str, Any] = {}
        for key in keys[:3]:
            part = node.value.get(key)
            if part is None or part.value is None:
                problem = f"missing: an objective has {', '.join(keys[:3])}"
                raise RecipeError(problem, path=f"{self.name}.{key}", source=node.source.text)
            parts[key] = check_part(part, key, f"{self.name}.{key}", context=CONTEXT)
        parts["auxiliary"] = self._auxiliary(node.value.get("auxiliary"))
        generator = node.value.get("generator")
        parts["generator"] = None
        if generator is not None and generator.value is not None:
            path = f"{self.name}.generator"
            parts["generator"] = check(_mapping(generator, root, path), generator_sizes, path)
        return parts

    def _auxiliary(self, node: Node | None) -> dict[str, tuple[Call, float]]:
        if node is None or node.value is None:
            return {}
        path = f"{self.name}.auxiliary"
        if not node.is_mapping:
            raise wrong_type(node, path, "a mapping of names to loss heads")
        heads = {}
        for name, child in node.value.items():
            inner = f"{path}.{name}"
            if name == "loss":
                raise RecipeError("the name 'loss' is the main head's", path=inner, source=child.source.text)
            if child.value is None:
                continue
            weight = 1.0
            if child.is_mapping:
                entries = dict(child.value)
                given = entries.pop("weight", None)
                if given is not None and given.value is not None:
                    weight = _number(given, f"{inner}.weight")
                child = Node(value=entries, source=child.source)
            heads[name] = (check_part(child, "loss", inner, context=CONTEXT), weight)
        return heads

    def resolve(self, value: dict[str, Any]) -> dict[str, Any]:
        tree = {key: value[key].resolved() for key in ("order", "masks", "loss")}
        heads = {
            name: {"type": call.type, "weight": weight, **call.resolved()}
            for name, (call, weight) in value["auxiliary"].items()
        }
        tree |= {"auxiliary": heads} if heads else {}
        return tree if value["generator"] is None else {**tree, "generator": value["generator"].resolved()}


def generator_sizes(
    *, n_layer: int = 1, n_head: int | None = None, d_inner: int | None = None, weight: float = 50.0
) -> tuple[dict[str, int | None], float]:
    """The backbone that fills in hidden tokens for the model to detect (ELECTRA); as wide as the model.

    Args:
        n_layer, n_head, d_inner: its sizes; None is the model's. Small ones do better than large ones.
        weight: of the detector's loss, beside 1 for the generator's.
    """
    sizes = {"n_layer": n_layer, "n_head": n_head, "d_inner": d_inner}
    for name, size in sizes.items():
        if size is not None and size < 1:
            raise RecipeError(f"{name} is {size}; it must be 1 or more", path=name)
    if not weight > 0:
        raise RecipeError(f"weight is {weight}; it must be above 0", path="weight")
    return {name: size for name, size in sizes.items() if size is not None}, weight


def _mapping(node: Node | None, root: Node, path: str) -> Node:
    if node is None or node.value is None:
        return Node(value={}, source=root.source)
    if not node.is_mapping:
        raise wrong_type(node, path, "a mapping of settings")
    return node


def _number(node: Node, path: str) -> float:
    try:
        value: float = coerce(node.plain(), float)
    except TypeError:
        raise wrong_type(node, path, "a number") from None
    return value


SCHEDULE = Part(name="schedule", default="warmup_decay", choices={"warmup_decay": Schedule, "xlnet": XLNetSchedule})
SECTIONS: dict[str, Section] = {
    "data": Data(
        name="data",
        default="text",
        choices={"text": open_rows, "xlnet_records": open_records},
        reserved={"batch_size": "it is train.batch_size", "seed": "it is the recipe's own seed"},
    ),
    "model": Model(name="model", context=CONTEXT),
    "objective": ObjectiveParts(),
    "memory": Part(name="memory", default="none"),
    "attention": Part(name="attention", default="auto", choices={"auto": AutoBackend}),
    "optimizer": Part(name="optimizer", default="adamw", choices={"adamw": AdamW, "xlnet_adam": XLNetAdam}),
    "schedule": SCHEDULE,
    "train": Settings(name="train", target=Trainer),
    "tracking": Part(name="tracking", default="mlflow", choices={"mlflow": MLflowTracker, "none": NoTracking}),
}
"""Every section of a recipe in the order in which it is shown."""
