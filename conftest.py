"""Fixtures of the packages' own tests and of those that cross packages."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import pytest

_BEFORE_AN_ERROR = ("warning: ", "attention backend ", "step ", "continuing from ")
"""How lines begin that a command may print before it refuses."""


@dataclass(frozen=True)
class Ran:
    """One command: how it ended and what it printed."""

    code: int
    out: str
    err: str


@pytest.fixture
def anyorder(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """The command as a function."""
    from anyorder.cli.main import main

    def run(*argv: object) -> Ran:
        capsys.readouterr()
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            try:
                code = main([str(word) for word in argv])
            except SystemExit as stop:  # argparse
                code = stop.code if isinstance(stop.code, int) else 1
        printed = capsys.readouterr()
        return Ran(code, printed.out, printed.err)

    return run


@pytest.fixture
def refused(anyorder: Callable[..., Ran]) -> Callable[..., str]:
    """The one line with which a command refuses, without its ``error: ``; ``also`` allows lines before it."""

    def run(*argv: object, code: int = 2, also: bool = False) -> str:
        ran = anyorder(*argv)
        assert ran.code == code, ran
        assert "Traceback" not in ran.err
        *before, line = ran.err.splitlines()
        assert also or all(other.startswith(_BEFORE_AN_ERROR) for other in before), ran.err
        assert not [other for other in before if other.startswith("error: ")], ran.err
        assert line.startswith("error: "), ran.err
        return line.removeprefix("error: ")

    return run


@pytest.fixture
def draw_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare a run the second that its curves take."""
    from anyorder.train import loop

    monkeypatch.setattr(loop, "draw_curves", lambda *args, **kwargs: [])
