"""The command: one line for an error that the user can mend, no traceback unless asked for one.

Exit codes: 0 done, 1 the run failed or a check did, 2 the recipe, the data or the command line is wrong, 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import difflib
import logging
import os
import re
import sys
import warnings
from collections.abc import Sequence
from typing import NoReturn

from . import (
    bench,
    compare,
    doctor,
    embed,
    eval,
    export,
    fill,
    finetune,
    generate,
    import_,
    inspect,
    list,
    new,
    prepare,
    score,
    show,
    train,
    ui,
)

__all__ = ["main"]

# Nothing heavy is imported here or at the top of a command's file: `anyorder --help` answers at once.
_COMMANDS = (
    train,
    compare,
    eval,
    finetune,
    import_,
    export,
    score,
    fill,
    generate,
    embed,
    inspect,
    show,
    list,
    new,
    prepare,
    bench,
    doctor,
    ui,
)

# Errors whose message says all. If no command has imported a class, nothing can have raised one.
_FOR_PEOPLE = ((2, "anyorder.core.errors", "AnyorderError"), (1, "anyorder.train.failure", "TrainingError"))
_WRONG_PLACES = (FileExistsError, FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {_one_line(message)}{_nearest(message)} (see {self.prog} --help)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    args = _parser().parse_args(argv)
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    _log_to_stderr()
    try:
        return args.run(args) or 0
    except KeyboardInterrupt as stop:
        print(f"interrupted: {stop}" if str(stop) else "interrupted", file=sys.stderr)
        return 128 + int(getattr(stop, "signum", 2))
    except BrokenPipeError:  # the reader of a pipe has gone, as in `anyorder list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if args.debug:
            raise
        for code, place, kind in _FOR_PEOPLE:
            if isinstance(error, getattr(sys.modules.get(place), kind, ())):
                print(f"error: {_one_line(str(error))}", file=sys.stderr)
                return code
        if isinstance(error, _WRONG_PLACES) and error.filename is not None:
            print(f"error: {error.filename}: {error.strerror} (--debug shows where)", file=sys.stderr)
            return 2
        what = _one_line(str(error)) or "no message"
        print(f"error: {type(error).__name__}: {what} (--debug shows where)", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="anyorder", description="Language-model pretraining objectives from interchangeable parts.")
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and leave")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)
    for command in _COMMANDS:
        text = (command.__doc__ or "").strip()
        name = command.__name__.rpartition(".")[2].rstrip("_")
        sub = commands.add_parser(
            name,
            parents=[common],  # type: ignore[list-item]
            help=text.partition("\n")[0],
            description=text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.configure(sub)
        sub.set_defaults(run=command.run)
    return parser


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"anyorder {version('anyorder')}")
        parser.exit()


def _nearest(message: str) -> str:
    """The allowed word nearest to the one that argparse refuses."""
    found = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
    if found is None:
        return ""
    near = difflib.get_close_matches(found[1], [word.strip("' ") for word in found[2].split(",")], n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _show_warning(message: Warning | str, category: type[Warning], *_: object) -> None:
    if not issubclass(category, (DeprecationWarning, FutureWarning)):
        print(f"warning: {_one_line(str(message))}", file=sys.stderr)


def _log_to_stderr() -> None:
    logger = logging.getLogger("anyorder")
    logger.handlers = [handler for handler in logger.handlers if handler.name != __name__]  # of an earlier command
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.set_name(__name__)
        handler.setFormatter(logging.Formatter("%(message)s"))
        logger.addHandler(handler)
    logger.setLevel(logging.INFO)
