"""What the README shows works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
SMALL = [
    "train.steps=2",
    "train.batch_size=4",
    "model.n_layer=1",
    "model.d_model=16",
    "model.d_inner=16",
    "tracking=none",
]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def command(*arguments: str) -> int:
    from anyorder.cli.main import main

    return main(arguments)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the README's files, and the recipes that they extend."""
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    ordered, zigzag = blocks("yaml")
    (tmp_path / "spans-ordered.yaml").write_text(ordered)
    (tmp_path / "zigzag.yaml").write_text(zigzag)
    (tmp_path / "zigzag.py").write_text(blocks("python")[0])
    return tmp_path


@pytest.mark.parametrize("name", ["spans-ordered", "zigzag"])
def test_the_recipes_train(folder: Path, name: str) -> None:
    overrides = [part for setting in SMALL for part in ("--set", setting)]
    assert command("train", str(folder / f"{name}.yaml"), "--out", str(folder / "run"), *overrides) == 0
    assert list((folder / "run" / "checkpoints").glob("step-*"))


def test_the_sampler_is_about_twenty_lines_and_leaks_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(blocks("python")[0].strip().splitlines()) <= 22
    assert command("inspect", "--leaks", str(folder / "zigzag.yaml")) == 0
    assert "no leak" in capsys.readouterr().out


def test_the_drawn_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = command("inspect", "--order", "2,4,1,3", "--text", "New York is big", "--out", str(tmp_path / "seen.png"))
    assert done == 0
    printed = capsys.readouterr().out
    assert "10" in printed
    assert "6" in printed


def test_every_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
