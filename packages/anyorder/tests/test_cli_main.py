"""Exit codes, one line an error, and help at once."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable

import pytest

from anyorder.cli import main as command
from anyorder.cli.main import main
from anyorder.core import DataError
from anyorder.train.failure import DiskFullError, Interrupted

COMMANDS = [module.__name__.rpartition(".")[2].rstrip("_") for module in command._COMMANDS]
HEAVY = ("torch", "numpy", "matplotlib", "rich", "yaml", "jsonargparse", "mlflow", "anyorder.core", "anyorder.train")


def test_no_help_imports_anything_heavy() -> None:
    """All helps in one process: what none of them has imported, each answers without."""
    code = f"""
import json, sys
from anyorder.cli.main import main
texts = []
for argv in [["--help"], ["--version"], *([name, "--help"] for name in {COMMANDS})]:
    try:
        main(argv)
    except SystemExit as stop:
        texts.append(stop.code)
print(json.dumps([texts, [name for name in {HEAVY} if name in sys.modules]]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == [[0] * (len(COMMANDS) + 2), []]
    for name in COMMANDS:
        assert f"usage: anyorder {name} [-h]" in done.stdout


@pytest.mark.parametrize("argv", [["--help"], ["train", "--help"]], ids=" ".join)
def test_help_takes_less_than_half_a_second_of_computing(argv: list[str]) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    call = "from anyorder.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", call, *argv], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: ")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime) < 0.5


def test_each_command_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    printed = " ".join(capsys.readouterr().out.split())
    for module in command._COMMANDS:
        assert module.__doc__
        assert " ".join(module.__doc__.splitlines()[0].split()) in printed


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "the following arguments are required: COMMAND (see anyorder --help)"),
        (["train"], "the following arguments are required: RECIPE (see anyorder train --help)"),
        (["tarin", "x.yaml"], "; did you mean 'train'? (see anyorder --help)"),
        (["train", "x.yaml", "--ste", "a=1"], "unrecognized arguments: --ste a=1 (see anyorder --help)"),
        (["compare", "x.yaml", "--seeds", "x"], "argument --seeds: invalid int value: 'x'"),
        (["compare", "x.yaml", "--seeds", "0"], "--seeds 0: a number of seeds, 1 or more"),
        (["eval", "nowhere"], "nowhere is not a run's folder: it has no recipe.yaml"),
        (["eval", "nowhere", "--windows", "0"], "--windows 0: a number, 1 or more"),
        (["list", "ordr"], "no kind of part is called 'ordr' (there are order, targets, "),
        (["ui", "nowhere"], "nowhere has no mlflow.db, so no run there was tracked"),
        (["train", "x.yaml"], "x.yaml: there is no such recipe"),
    ],
)
def test_a_wrong_command_line_is_one_line(refused: Callable[..., str], argv: list[str], said: str) -> None:
    assert said in refused(*argv)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (DataError("the corpus\nis empty"), 2, "error: the corpus is empty"),
        (DiskFullError("the disk is full"), 1, "error: the disk is full"),
        (ZeroDivisionError("division\nby zero"), 1, "error: ZeroDivisionError: division by zero (--debug shows where)"),
        (AssertionError(), 1, "error: AssertionError: no message (--debug shows where)"),
        (NotADirectoryError(20, "Not a directory", "a/b"), 2, "error: a/b: Not a directory (--debug shows where)"),
        (OSError(5, "Input/output error", "a"), 1, "error: OSError: [Errno 5] Input/output error: 'a' (--debug shows"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (Interrupted("stopped by SIGINT after step 3"), 130, "interrupted: stopped by SIGINT after step 3"),
        (Interrupted("stopped by SIGTERM", signum=15), 143, "interrupted: stopped by SIGTERM"),
    ],
)
def test_exit_codes(
    anyorder: Callable, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, said: str
) -> None:
    def fail(args: object) -> int:
        raise error

    monkeypatch.setattr(command.list, "run", fail)
    ran = anyorder("list")
    assert (ran.code, ran.err.count("\n")) == (code, 1)
    assert ran.err.startswith(said)
    if isinstance(error, Exception):
        with pytest.raises(type(error)):
            anyorder("list", "--debug")


def test_a_reader_that_leaves_early_gets_no_traceback() -> None:
    code = "import sys; from anyorder.cli.main import main; sys.exit(main(['list']))"
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-c", code], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert "Traceback" not in done.stderr
    assert done.returncode == 1
