"""The ``model`` section of a recipe: the backbone, and what it starts from."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from anyorder.core import CheckpointError, RecipeError
from anyorder.models import ABOUT, PRESETS, Pretrained, TransformerXL, preset

from .call import Call, Factory, check, check_part, wrong_type
from .source import Node

__all__ = ["Model", "ModelCall"]

_FREE = frozenset({"dropout", "attention_dropout", "init_std"})
"""Settings that pretrained weights leave to the recipe."""


@dataclass(frozen=True, kw_only=True)
class ModelCall(Call):
    """The backbone's constructor.

    Attributes:
        init_from: the model folder that training starts from, or None for fresh weights.
    """

    init_from: Path | None = None

    def resolved(self) -> dict[str, Any]:
        start = {} if self.init_from is None else {"init_from": str(self.init_from)}
        return {**super().resolved(), **start}


@dataclass(frozen=True, kw_only=True)
class Model:
    """The backbone.

    ``preset`` fills in sizes that the recipe leaves out; ``init_from``, a model folder, decides all that its weights
    depend on, whatever the recipe says; ``biases`` are names of position biases.
    """

    name: str
    context: frozenset[str]

    def read(self, node: Node | None, root: Node) -> ModelCall:
        node = Node(value={}, source=root.source) if node is None or node.value is None else node
        if not node.is_mapping:
            raise wrong_type(node, self.name, "a mapping of settings")
        entries = dict(node.value)
        self._fill_in_preset(entries)
        init_from = self._fill_in_pretrained(entries)
        written = entries.pop("biases", None)
        if written is None or written.value is None:
            written = Node(value=[Node(value="transformer_xl", source=node.source)], source=node.source)
        reserved = {"vocab_size": "the data has it", "attention": "it is a section of its own, 'attention'"}
        call = check(
            Node(value=entries, source=node.source),
            TransformerXL,
            self.name,
            reserved=reserved,
            context=frozenset({"biases"}),
            also=("preset", "init_from", "biases"),
        )
        settings = {item.name: getattr(call, item.name) for item in fields(Call)}
        settings["arguments"] = {**call.arguments, "biases": self._biases(written)}
        return ModelCall(**settings, init_from=init_from)

    def resolve(self, value: ModelCall) -> dict[str, Any]:
        return value.resolved()

    def _fill_in_preset(self, entries: dict[str, Node]) -> None:
        chosen = entries.pop("preset", None)
        if chosen is None or chosen.value is None:
            return
        if not isinstance(chosen.value, str):
            raise wrong_type(chosen, f"{self.name}.preset", f"one of {', '.join(PRESETS)}")
        try:
            sizes = preset(chosen.value)
        except RecipeError as error:
            raise RecipeError(error.problem, path=f"{self.name}.preset", source=chosen.source.text) from None
        for key, value in sizes.items():
            if key not in entries or entries[key].value is None:
                entries[key] = Node(value=value, source=chosen.source)

    def _fill_in_pretrained(self, entries: dict[str, Node]) -> Path | None:
        """Take the architecture from a model folder; one that is gone is missed only when its weights are needed."""
        chosen = entries.pop("init_from", None)
        if chosen is None or chosen.value is None:
            return None
        path = f"{self.name}.init_from"
        if not isinstance(chosen.value, str):
            raise wrong_type(chosen, path, "the path of a model folder")
        folder = (chosen.source.folder / chosen.value).resolve()
        if not (folder / ABOUT).is_file():
            if "n_layer" in entries:
                return folder
            problem = f"{folder} is no model folder: it has no {ABOUT}; make one with `anyorder import`"
            raise RecipeError(problem, path=path, source=chosen.source.text)
        try:
            shape = Pretrained.architecture_in(folder).to_json()
        except CheckpointError as error:
            raise RecipeError(str(error), path=path, source=chosen.source.text) from None
        self._replace(entries, shape, chosen)
        return folder

    def _replace(self, entries: dict[str, Node], shape: Mapping[str, Any], chosen: Node) -> None:
        changed = []
        for key, value in shape.items():
            if key == "vocab_size" or key in _FREE:
                continue
            old = entries.get(key)
            if old is not None and old.value is not None and _plain(old, key) != value:
                changed.append(f"{key} {_plain(old, key)} became {value}")
            nodes = [Node(value=item, source=chosen.source) for item in value] if isinstance(value, list) else value
            entries[key] = Node(value=nodes, source=chosen.source)
        if changed:
            warnings.warn(f"model: the weights of {chosen.value} decide: {', '.join(changed)}", stacklevel=2)

    def _biases(self, node: Node) -> list[Factory]:
        path = f"{self.name}.biases"
        if not isinstance(node.value, list):
            raise wrong_type(node, path, "a list of parts")
        parts = (
            check_part(item, "positions", f"{path}.{index}", context=self.context)
            for index, item in enumerate(node.value)
        )
        return [Factory.of(part) for part in parts]


def _plain(node: Node, key: str) -> Any:
    value = node.plain()
    if key == "biases" and isinstance(value, list):
        return [item.get("type") if isinstance(item, dict) else item for item in value]
    return value
