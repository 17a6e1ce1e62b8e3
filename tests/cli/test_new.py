"""``anyorder new``: a package that passes its own tests, and is never written over another."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from anyorder.cli.main import main
from anyorder.cli.scaffold import KINDS
from anyorder.core import SEAMS

ROOT = Path(__file__).parents[2]
IN_TURN = """
import json, sys
from anyorder.cli.main import main
for argv in json.loads(sys.argv[1]):
    assert main(argv) == 0, argv
"""


def begin(folder: Path, kind: str, name: str) -> Path:
    assert main(["new", kind, name, "--out", str(folder)]) == 0
    return folder / f"anyorder-{name}"


def call(command: Sequence[str], cwd: Path, **environment: str) -> str:
    environ = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""} | environment
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=environ)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def test_there_is_one_for_every_seam_but_the_choice_of_targets() -> None:
    assert {kind.seam for kind in KINDS.values()} == set(SEAMS) - {"targets"}


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_written_whole_and_in_our_style(kind: str, tmp_path: Path) -> None:
    project = begin(tmp_path, kind, "two-sided")
    texts = {str(path.relative_to(project)): path.read_text() for path in project.rglob("*") if path.is_file()}
    assert f"src/anyorder_two_sided/{kind.replace('-', '_')}.py" in texts
    assert {"README.md", "pyproject.toml", "recipes/two_sided.yaml", "recipes/plm.yaml"} <= set(texts)
    assert not [name for name, text in texts.items() if "$" in text], "a placeholder was left"
    assert f'[project.entry-points."{SEAMS[KINDS[kind].seam]}"]' in texts["pyproject.toml"]
    for name, text in texts.items():
        if name.endswith(".yaml"):
            assert yaml.safe_load(text)
    ruff = [sys.executable, "-m", "ruff"]
    settings = ["--config", str(ROOT / "pyproject.toml"), str(project)]
    call([*ruff, "check", *settings], tmp_path)
    call([*ruff, "format", "--check", *settings], tmp_path)


def test_a_folder_in_the_way_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = begin(tmp_path, "memory", "river")
    mine = project / "src/anyorder_river/memory.py"
    mine.write_text("# my work\n")
    assert main(["new", "memory", "river", "--out", str(tmp_path)]) == 2
    assert "exists and is left as it is" in capsys.readouterr().err
    assert mine.read_text() == "# my work\n"


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("order-sampler", "permutation", "anyorder-orders has an order sampler called 'permutation' already"),
        ("order-sampler", "Zigzag", "use lower-case letters"),
        ("order-sampler", "2sided", "use lower-case letters"),
        ("order-sampler", "class", "use lower-case letters"),
        ("order-sampler", "../x", "use lower-case letters"),
        ("order-sampler", "order-sampler", "a name of its own"),
        ("order-sampeler", "zigzag", "did you mean 'order-sampler'?"),
    ],
)
def test_other_names_are_refused(
    kind: str, name: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", kind, name, "--out", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_its_own_tests_pass_and_its_recipe_trains(kind: str, tmp_path: Path, corpus: Path) -> None:
    """Out of the box, then installed from a wheel as a user would and named in a recipe."""
    project = begin(tmp_path, kind, "mine-own")
    call([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], project)
    site = tmp_path / "site"
    install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--offline", "--no-cache", "--no-deps"]
    copy = shutil.copytree(project, tmp_path / "copy")
    call([*install, "--no-build-isolation", "--target", str(site), str(copy)], tmp_path)
    small = [f"data.corpus={corpus}", "data.vocab_size=null", "data.length=32", "tracking={type: none}"]
    small += ["model.n_layer=1", "model.d_model=16", "model.n_head=2", "model.d_inner=32", "train.device=cpu"]
    small += ["train.steps=2", "train.batch_size=2", "train.eval_every=2", "train.checkpoint_every=2"]
    memory = ["memory.mem_len=16", "memory.reuse_len=16"]
    settings = [part for setting in [*small, *memory] for part in ("--set", setting)]
    recipe = "recipes/mine_own.yaml"
    commands = [
        ["list", KINDS[kind].seam],
        ["train", recipe, "--out", "run", *settings],
        ["inspect", "--leaks", recipe, *settings],
    ]
    said = call([sys.executable, "-c", IN_TURN, json.dumps(commands)], project, PYTHONPATH=str(site))
    assert "mine_own" in said.partition("run: 2 steps")[0]
    assert (project / "run/checkpoints/step-00000002").is_dir()
