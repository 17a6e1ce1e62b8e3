"""One cell of a comparison: a recipe with a seed, trained and measured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from anyorder.core import TokenBatch

from ..atomic import write_json
from ..recipe import Recipe
from ..rows import TextRows
from ..yardsticks import Measurement, choose_yardsticks, held_out_windows

__all__ = ["CELL", "Cell", "CellResult", "Questions"]

CELL = "cell.json"
_FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Questions:
    """What is asked of every model after training; a cell that was asked anything else is asked again.

    Attributes:
        windows: of held-out text, at most.
        seed: of what is hidden.
        yardsticks: ``basic``, ``all``, or names divided by commas.
        length, tail: tokens of a window, and of its end, in which tokens are hidden; None is the recipe's own. A
            comparison sets both, so that recipes with other rows are asked about the same tokens.

    Raises:
        RecipeError: no yardstick has such a name.
    """

    windows: int = 128
    seed: int = 0
    yardsticks: str = "basic"
    length: int | None = None
    tail: int | None = None

    def __post_init__(self) -> None:
        choose_yardsticks(self.yardsticks)

    def windows_of(self, data: TextRows) -> TokenBatch:
        """The held-out windows to ask about.

        Raises:
            DataError: less held-out text than one window.
        """
        return held_out_windows(data, limit=self.windows, seed=self.seed, length=self.length, tail=self.tail)


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """What a finished cell found.

    Attributes:
        recipe, seed: which cell.
        digest: of the recipe.
        corpus: fingerprint of the text.
        questions: what was asked.
        parameters, steps, tokens, targets: of training; ``targets`` are predictions made, over all steps.
        seconds: time in training steps.
        peak_memory: bytes, or None where the training was not seen whole.
        device: what it ran on.
        losses: the objective's own loss by step, in nats a target; ``held_out`` likewise where it was evaluated.
        measurements: by yardstick.
        versions: of the libraries.
    """

    recipe: str
    seed: int
    digest: str
    corpus: str
    questions: Questions
    parameters: int
    steps: int
    tokens: int
    targets: int
    seconds: float
    peak_memory: int | None
    device: str
    losses: tuple[tuple[int, float], ...]
    held_out: tuple[tuple[int, float], ...]
    measurements: Mapping[str, Measurement]
    versions: Mapping[str, str]

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds if self.seconds else 0.0

    @property
    def targets_per_second(self) -> float:
        return self.targets / self.seconds if self.seconds else 0.0

    def save(self, folder: Path) -> None:
        write_json(folder / CELL, {"format": _FORMAT, **asdict(self)})

    @classmethod
    def load(cls, folder: Path) -> CellResult | None:
        """The result in a cell's folder; None if there is none, or one of another format."""
        try:
            tree: dict[str, Any] = json.loads((folder / CELL).read_text(encoding="utf-8"))
            if tree.pop("format") != _FORMAT:
                return None
            return cls.from_json(tree)
        except (FileNotFoundError, KeyError, TypeError, ValueError):
            return None

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> CellResult:
        return cls(
            **{
                **tree,
                "questions": Questions(**tree["questions"]),
                "losses": tuple((step, loss) for step, loss in tree["losses"]),
                "held_out": tuple((step, loss) for step, loss in tree["held_out"]),
                "measurements": {name: Measurement.from_json(m) for name, m in tree["measurements"].items()},
            }
        )


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A recipe with a seed, and its folder."""

    recipe: Recipe
    folder: Path
    questions: Questions

    @classmethod
    def of(cls, recipe: Recipe, *, seed: int, folder: Path, questions: Questions) -> Cell:
        seeded = replace(recipe, seed=seed, tree={**recipe.tree, "seed": seed})
        return cls(recipe=seeded, folder=folder / "cells" / recipe.name / f"seed-{seed}", questions=questions)

    @property
    def label(self) -> str:
        return f"{self.recipe.name}, seed {self.recipe.seed}"

    def finished(self, *, corpus: str) -> CellResult | None:
        """The result of an earlier time, if it is of this very recipe, text and questions."""
        found = CellResult.load(self.folder)
        if found is None:
            return None
        same = found.digest == self.recipe.digest and found.corpus == corpus and found.questions == self.questions
        return found if same else None
