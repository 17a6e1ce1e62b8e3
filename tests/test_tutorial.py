"""docs/tutorial.md, done as it says, outside the repository."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TUTORIAL = ROOT / "docs" / "tutorial.md"
_BLOCK = re.compile(r"^```(\w+)(?: path=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    language: str
    path: str
    text: str


def blocks() -> list[Block]:
    return [Block(*found) for found in _BLOCK.findall(TUTORIAL.read_text(encoding="utf-8"))]


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a console block, with the lines that its output must have."""
    command, expected = "", []
    for line in text.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, expected
            command, expected = line[2:], []
        else:
            expected.append(line)
    yield command, expected


def tools(folder: Path, site: Path) -> Path:
    """The commands that the page uses; ``pip`` installs into a folder of its own and asks no network."""
    folder.mkdir()
    install = f"-m uv pip install --quiet --offline --no-cache --no-deps --no-build-isolation --target {site}"
    scripts = {
        "anyorder": '-c "import sys; from anyorder.cli.main import main; sys.exit(main())" "$@"',
        "pytest": '-m pytest -p no:cacheprovider "$@"',
        "pip": f"{install} .",
    }
    for name, arguments in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\nexec {sys.executable} {arguments}\n")
        (folder / name).chmod(0o755)
    return folder


def test_every_block_is_run_or_written() -> None:
    """A block of another kind would look like part of the tutorial and be tested by nobody."""
    found = blocks()
    assert len(found) == TUTORIAL.read_text(encoding="utf-8").count("```") // 2
    assert all(block.path or block.language == "console" for block in found)
    assert {block.path for block in found if "src/" in block.path}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_tutorial(tmp_path: Path) -> None:
    site, here = tmp_path / "site", tmp_path
    environ = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(site)}
    environ["PATH"] = f"{tools(tmp_path / 'bin', site)}{os.pathsep}{environ['PATH']}"
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True).stdout
    for block in blocks():
        if block.path:
            path = here / block.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
            continue
        for command, expected in commands(block.text):
            if command.startswith("cd "):
                here = here / command[3:]
                continue
            done = subprocess.run(["sh", "-c", command], cwd=here, env=environ, capture_output=True, text=True)
            told = f"$ {command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
            assert done.returncode == 0, told
            for line in expected:
                assert line in done.stdout, f"{line!r} is not in the output:\n{told}"
    assert (here / "runs/first/report.html").is_file()
    after = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True).stdout
    new = {line for line in after.splitlines() if line.startswith("??")} - set(changed.splitlines())
    assert not [line for line in new if "infill" in line], "no file of the repository is touched"
