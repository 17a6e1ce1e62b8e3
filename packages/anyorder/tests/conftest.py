"""The command as a function: what it prints and the code with which it ends."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from anyorder.cli.main import main


@dataclass(frozen=True)
class Ran:
    """One command."""

    code: int
    out: str
    err: str


@pytest.fixture
def anyorder(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
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
    """The one line with which a command refuses, without its ``error: ``."""

    def run(*argv: object, code: int = 2) -> str:
        ran = anyorder(*argv)
        assert ran.code == code, ran
        lines = [line for line in ran.err.splitlines() if not line.startswith(("warning: ", "attention backend"))]
        assert len(lines) == 1, ran.err
        assert lines[0].startswith("error: ")
        return lines[0].removeprefix("error: ")

    return run
