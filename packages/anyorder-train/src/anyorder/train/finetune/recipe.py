"""A fine-tuning recipe: the task, the head, the optimiser and the loop, read as strictly as a pretraining one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anyorder.core import RecipeError
from anyorder.losses.summary import Pooling

from ..layerwise import LayerwiseAdamW
from ..optimizer import AdamW
from ..recipe.call import Call, unknown_key
from ..recipe.merge import override, read_with_parents
from ..recipe.sections import SCHEDULE, Part, Section, Settings
from ..recipe.signature import coerce
from ..recipe.source import Node, dump_yaml
from ..schedule import Schedule
from ..xlnet_adam import XLNetAdam
from .tuner import Tuner

__all__ = ["FineTuning", "Head", "Task", "load_finetuning"]


@dataclass(frozen=True, kw_only=True)
class Task:
    """Labelled texts.

    Attributes:
        train, dev: files to train on and to measure accuracy on (``read_examples``).
        text, pair, label: names of their fields; no ``pair`` for single texts.
        length: most tokens of a text or pair, SEP and CLS included.
    """

    train: Path
    dev: Path
    text: str = "text"
    pair: str | None = None
    label: str = "label"
    length: int = 128


@dataclass(frozen=True, kw_only=True)
class Head:
    """What reads the sequence (``SequenceSummary``)."""

    pooling: Pooling = "token"
    project: bool = True
    dropout: float = 0.1


_SECTIONS: dict[str, Section] = {
    "task": Settings(name="task", target=Task),
    "head": Settings(name="head", target=Head),
    "optimizer": Part(
        name="optimizer",
        default="layerwise_adamw",
        choices={"layerwise_adamw": LayerwiseAdamW, "adamw": AdamW, "xlnet_adam": XLNetAdam},
    ),
    "schedule": SCHEDULE,
    "train": Settings(name="train", target=Tuner),
}


@dataclass(frozen=True, kw_only=True)
class FineTuning:
    """A recipe, each section checked against the constructor that it goes to.

    Attributes:
        seed: of the initial head, the order of the examples and dropout.
        task, head: the data, and what reads it.
        optimizer, schedule, tuner: what trains.
        tree: every setting as plain data, defaults written out.
    """

    seed: int
    task: Task
    head: Head
    optimizer: AdamW
    schedule: Schedule
    tuner: Tuner
    tree: Mapping[str, Any] = field(repr=False)

    def dump(self) -> str:
        """The resolved recipe as YAML that reads back to the same."""
        return dump_yaml(self.tree)


def load_finetuning(path: Path | str, *, overrides: Sequence[str] = ()) -> FineTuning:
    """Read a recipe, what it extends, and settings over it.

    Raises:
        RecipeError: one line with file and line, path, value, what is allowed and the nearest name.
    """
    root = override(read_with_parents(Path(path)), overrides)
    for key, node in root.value.items():
        if key not in ("seed", *_SECTIONS):
            raise unknown_key(key, ["seed", *_SECTIONS], path="", node=node)
    calls: dict[str, Call] = {name: section.read(root.value.get(name), root) for name, section in _SECTIONS.items()}
    built = {name: call.build() for name, call in calls.items()}
    seed = _seed(root)
    return FineTuning(
        seed=seed,
        task=built["task"],
        head=built["head"],
        optimizer=built["optimizer"],
        schedule=built["schedule"],
        tuner=built["train"],
        tree={"seed": seed, **{name: section.resolve(calls[name]) for name, section in _SECTIONS.items()}},
    )


def _seed(root: Node) -> int:
    node = root.value.get("seed")
    if node is None or node.value is None:
        return 1
    try:
        seed: int = coerce(node.plain(), int)
    except TypeError:
        raise RecipeError(f"{node.plain()!r} is not a whole number", path="seed", source=node.source.text) from None
    return seed
