"""Choosing the attention backend, with the reasons of those that refused."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anyorder.core import AttentionBackend, AttentionRequest, BackendUnsupportedError, PluginError, available, find

__all__ = ["AutoBackend", "BackendChoice", "reasons", "require"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class BackendChoice:
    """A backend, why each one that was preferred to it refused, and those after it, which were not asked."""

    backend: AttentionBackend
    refused: Mapping[str, str]
    slower: Sequence[str] = ()

    def __str__(self) -> str:
        notes = [f"{name} refused: {reason}" for name, reason in self.refused.items()]
        notes += [f"not asked, as slower: {', '.join(self.slower)}"] if self.slower else []
        return f"attention backend {self.backend.name}" + (f" ({'; '.join(notes)})" if notes else "")


class AutoBackend:
    """The first backend of a list that can serve the run.

    Args:
        prefer: names of backends, the best first; those that are not installed are passed over.
    """

    def __init__(self, *, prefer: Sequence[str] = ("tiled", "flex", "xformers", "sdpa", "naive")) -> None:
        self.prefer = tuple(prefer)

    def choose(self, request: AttentionRequest) -> BackendChoice:
        """Raise ``BackendUnsupportedError`` where all of them refuse."""
        refused: dict[str, str] = {}
        installed = available("attention")
        names = [name for name in self.prefer if name in installed]
        for place, name in enumerate(names):
            try:
                backend: AttentionBackend = find("attention", name)()
            except PluginError as error:
                refused[name] = str(error)
                continue
            reason = backend.refuse(request)
            if reason is None:
                return BackendChoice(backend=backend, refused=refused, slower=names[place + 1 :])
            refused[name] = reason
        why = "; ".join(f"{name}: {reason}" for name, reason in refused.items()) or "none is installed"
        raise BackendUnsupportedError(f"no attention backend can serve this run ({why})")


def require(backend: AttentionBackend | AutoBackend, request: AttentionRequest) -> AttentionBackend:
    """The backend that serves a run: the one given, or the best that accepts; logged once.

    Raises:
        BackendUnsupportedError: the backend that was asked for refuses, with its reason.
    """
    if isinstance(backend, AutoBackend):
        choice = backend.choose(request)
        logger.info("%s", choice)
        return choice.backend
    reason = backend.refuse(request)
    if reason is not None:
        raise BackendUnsupportedError(
            f"attention backend {backend.name!r} cannot serve this run: {reason}; use attention.type 'auto'"
        )
    return backend


def reasons(request: AttentionRequest) -> dict[str, str | None]:
    """Of every installed backend why it refuses a request, or None where it accepts."""
    answers: dict[str, str | None] = {}
    for name in available("attention"):
        try:
            answers[name] = find("attention", name)().refuse(request)
        except PluginError as error:
            answers[name] = str(error)
    return answers
