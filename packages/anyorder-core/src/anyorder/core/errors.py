"""Errors meant for people: what is wrong, where, what is allowed, what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class AnyorderError(ValueError):
    """Base of every error that the user can mend. The command line prints it in one line and exits with 2."""


class RecipeError(AnyorderError):
    """A recipe is wrong: an unknown key, a wrong type, a value out of range.

    Args:
        problem: what is wrong, without a full stop.
        path: dotted path inside the recipe, such as ``objective.order.perm_size``.
        source: the file, and where known the line, such as ``plm.yaml:12``.
    """

    def __init__(self, problem: str, *, path: str = "", source: str = "") -> None:
        where = ": ".join(part for part in (source, path) if part)
        super().__init__(f"{where}: {problem}" if where else problem)
        self.problem, self.path, self.source = problem, path, source


class IncompatiblePartsError(RecipeError):
    """Two parts that cannot work together; the message names the remedy."""


class BackendUnsupportedError(AnyorderError):
    """An attention backend cannot serve this device, dtype, gradient or bias."""


class PluginError(AnyorderError):
    """A part from an entry point or a dotted name cannot be found, loaded or told from another of the same name."""


class DataError(AnyorderError):
    """A corpus, tokenizer or batch is not what it should be."""


class CheckpointError(AnyorderError):
    """A checkpoint is missing, truncated, altered or of another model."""


def did_you_mean(name: str, allowed: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the nearest allowed name, or an empty string."""
    near = difflib.get_close_matches(name, list(allowed), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""
