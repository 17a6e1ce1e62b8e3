"""What somebody new tries, in the order in which they would: each command works or says in one line why not."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import matplotlib.image
import pytest
from safetensors.torch import load_file

from anyorder.train.recipe import load_recipe

RECIPES = Path(__file__).parents[2] / "recipes"
LEAKY = """\
from dataclasses import replace

from anyorder.masks import TwoStream


class Leaky(TwoStream):
    '''Queries read at the time of their own token.'''

    def build(self, batch, plan, **settings):
        streams = super().build(batch, plan, **settings)
        return replace(streams, query=replace(streams.query, time=streams.query.time + 1))
"""


def test_train_again_resume_and_eval(anyorder: Callable, refused: Callable, recipe: Path) -> None:
    ran = anyorder("train", recipe, "--out", "run")
    assert ran.code == 0
    assert re.fullmatch(r"run: 4 steps, 256 tokens, [\d,]+ tokens a second\n", ran.out)
    assert "step 1/4  loss " in ran.err
    before = {file: file.read_bytes() for file in Path("run").rglob("*") if file.is_file()}

    assert refused("train", recipe, "--out", "run").startswith("run holds a run already (metrics.jsonl): go on with it")
    said = refused("train", recipe, "--out", "run", "--resume", "--set", "train.steps=6")
    assert said.startswith("run holds a run of another recipe: train.steps (was 4, is 6); resume with its own")
    assert anyorder("train", recipe, "--out", "run", "--resume").code == 0  # there is nothing left to do
    assert {file: file.read_bytes() for file in before} == before

    ran = anyorder("eval", "run", "--windows", 2, "--batches", 1, "--json", "eval.json")
    assert ran.code == 0
    assert ran.err == "attention backend tiled (not asked, as slower: flex, xformers, sdpa, naive)\n"
    for name in ("its own loss on held-out text", "cloze", "left_to_right", "bits/byte"):
        assert name in ran.out
    assert '"yardsticks"' in Path("eval.json").read_text()


@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("memory.type=none", "data.stride=16"),
        ("memory.type=none", "data.layout=pairs"),
        ("data.bidirectional=true", "train.accumulate=2"),
    ],
    ids=lambda settings: " ".join(settings) or "as it is",
)
def test_train_counts_the_tokens_that_show_promises(
    anyorder: Callable, recipe: Path, settings: tuple[str, ...]
) -> None:
    """New tokens of the corpus: what segments share is read again and counted once."""
    given = [part for setting in settings for part in ("--set", setting)]
    promised = re.search(r"^# tokens a step +([\d,]+) ", anyorder("show", recipe, *given).out, re.MULTILINE)
    assert promised
    done = re.match(r"runs/small: 4 steps, ([\d,]+) tokens", anyorder("train", recipe, *given).out)
    assert done
    a_step, in_all = (int(found[1].replace(",", "")) for found in (promised, done))
    assert in_all == 4 * a_step < 4 * 4 * 32


def test_training_goes_to_a_folder_named_after_the_recipe(anyorder: Callable, recipe: Path) -> None:
    assert anyorder("train", recipe, "--set", "name=mine").out.startswith("runs/mine: 4 steps")


def test_wrong_places(refused: Callable, recipe: Path) -> None:
    Path("file").touch()
    assert refused("train", recipe, "--out", "file/run").startswith("file/run: Not a directory")
    assert refused("train", recipe, "--out", "file").startswith("file: ")
    assert refused("train", recipe, "--from", "nowhere").startswith("--from nowhere: no model folder")
    Path("folder").mkdir()
    Path("folder/mine.yaml").touch()
    assert refused("train", "folder") == "folder: is a folder; name a recipe in it (folder/ has mine.yaml)"
    assert refused("train", "small.yml") == "small.yml: there is no such recipe (./ has small.yaml)"
    assert "did you mean 'steps'" in refused("train", recipe, "--set", "train.step=5")
    assert sorted(file.name for file in Path().iterdir()) == ["file", "folder", "small.yaml"]


def test_show(anyorder: Callable, recipe: Path) -> None:
    ran = anyorder("show", recipe, "--set", "train.clip=2.0")
    assert ran.code == 0
    yaml, _, sizes = ran.out.partition("\n\n")
    Path("again.yaml").write_text(yaml + "\n")
    assert load_recipe("again.yaml").tree == load_recipe(recipe, overrides=["train.clip=2.0"]).tree
    assert re.search(r"^# parameters +5,864$", sizes, re.MULTILINE)
    assert re.search(r"^# tokens a step +64 \(4 rows of 32, 16 of them new\)$", sizes, re.MULTILINE)

    ran = anyorder("show", recipe, "--set", "train.clip=2.0", "--origins")
    rows = {line.split()[0]: line.split(None, 2)[1:] for line in ran.out.partition("\n\n")[0].splitlines()}
    assert rows["train.clip"] == ["2.0", "--set train.clip=2.0"]
    assert rows["train.steps"] == ["4", "small.yaml:9"]
    assert rows["train.keep"] == ["2", "default"]


def test_the_parts_of_a_third_party_travel_with_the_run(anyorder: Callable, recipe: Path) -> None:
    Path("walk_parts.py").write_text(
        "from anyorder.orders import Permutation\n\n\nclass Zigzag(Permutation):\n    '''From both ends.'''\n"
    )
    ran = anyorder("train", recipe, "--set", "objective.order={type: walk_parts.Zigzag}", "--out", "run")
    assert ran.code == 0, ran.err
    assert Path("run/walk_parts.py").read_text() == Path("walk_parts.py").read_text()
    Path("walk_parts.py").unlink()
    assert anyorder("eval", "run", "--windows", 2, "--batches", 1).code == 0


def test_inspect_a_recipe(anyorder: Callable, recipe: Path) -> None:
    ran = anyorder("inspect", recipe, "--out", "segment.png")
    assert ran.code == 0
    counts = re.search(r"^content stream: (\d+) permitted pairs, and (\d+) with memory$", ran.out, re.MULTILINE)
    assert counts is not None
    assert int(counts[2]) == 32 * 16  # every slot sees all of memory
    assert 32 <= int(counts[1]) <= 32 * 32
    assert "too many for a table" in ran.out
    height, width, _ = matplotlib.image.imread("segment.png").shape
    assert 1200 < width < 3000
    assert 400 < height < 2000
    ran = anyorder("inspect", recipe, "--text", "New York is a city", "--out", "sentence.png")
    assert ran.code == 0
    assert ran.err == "warning: perm_size 16 does not divide 5 tokens, so it is left out\n"
    assert "New  t=" in ran.out


def test_inspect_leaks(anyorder: Callable, recipe: Path) -> None:
    ran = anyorder("inspect", "--leaks", recipe)
    assert ran.code == 0
    assert ran.out.endswith("no leak: no target's token reaches its own prediction\n")
    Path("leaky_parts.py").write_text(LEAKY)
    ran = anyorder("inspect", "--leaks", recipe, "--set", "objective.masks.type=leaky_parts.Leaky")
    assert ran.code == 1
    assert ran.out.endswith("LEAK: a prediction can see its own answer\n")
    graph, model = re.findall(r": (\d+) leaks$", ran.out, re.MULTILINE)
    assert int(graph) > 0
    assert int(model) > 0


def test_a_leak_by_values_alone_is_found_by_experiment(
    anyorder: Callable, recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A builder whose graph is clean, and which adds each target's id to the token before it."""
    Path("sly_parts.py").write_text(
        "from dataclasses import replace\n\nimport torch\n\nfrom anyorder.masks import TwoStream\n\n\n"
        "class Sly(TwoStream):\n    def build(self, batch, plan, **settings):\n"
        "        streams = super().build(batch, plan, **settings)\n"
        "        near = torch.where(plan.target, 0, streams.content.ids.roll(-1, 1))\n"
        "        return replace(streams, content=replace(streams.content, ids=near))\n"
    )
    ran = anyorder("inspect", "--leaks", recipe, "--set", "objective.masks.type=sly_parts.Sly")
    assert ran.code == 1
    assert re.search(r"^graph: .* 0 leaks$", ran.out, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plm", "mlm", "clm"])
def test_the_quickstart_recipes_do_not_leak(anyorder: Callable, name: str) -> None:
    ran = anyorder("inspect", "--leaks", RECIPES / "quickstart" / f"{name}.yaml")
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "no leak: no target's token reaches its own prediction")
    assert [line.rpartition(": ")[2] for line in ran.out.splitlines()[:2]] == ["0 leaks", "0 leaks"]


def test_compare_refuses_before_it_computes(anyorder: Callable, refused: Callable, recipe: Path) -> None:
    assert refused("compare", recipe, recipe) == "name: two recipes are called 'small'; give each a name of its own"
    Path("more.yaml").write_text("extends: small.yaml\nname: more\ntrain: {batch_size: 8}\n")
    said = refused("compare", recipe, "more.yaml", "--out", "both", also=True)  # a table of the budgets
    assert said.startswith("the recipes differ in more than their objective: tokens in all (256 in small")
    assert "--unequal" in said
    assert not Path("both").exists()
    assert anyorder("train", recipe, "--out", "run").code == 0
    assert refused("compare", recipe, "--out", "run") == "--out run: it holds a run of its own; choose another folder"


@pytest.mark.slow
def test_compare_one_recipe_and_again(anyorder: Callable, refused: Callable, recipe: Path) -> None:
    ran = anyorder("compare", recipe, "--out", "one")
    assert ran.code == 0, ran.err
    assert ran.out.rstrip().endswith("report: one/report.html")
    assert "Traceback" not in ran.err
    ran = anyorder("compare", recipe, "--out", "one")
    assert ran.code == 0
    assert "cell 1 of 1: small, seed 1 (done before)" in ran.err
    assert "one holds a comparison" in refused("train", recipe, "--out", "one")


def test_eval_of_the_folder_of_runs_names_them(anyorder: Callable, refused: Callable, recipe: Path) -> None:
    assert anyorder("train", recipe).code == 0
    said = "runs is not a run's folder: it has no recipe.yaml (runs in it: small)"
    assert refused("eval", "runs") == said


@pytest.mark.slow
def test_ctrl_c_in_a_comparison_and_on_again(anyorder: Callable, recipe: Path) -> None:
    Path("more.yaml").write_text("extends: small.yaml\nname: more\nobjective: {order: {perm_size: 8}}\n")
    command = ("compare", recipe, "more.yaml", "--set", "train.steps=400", "--out", "both")
    process = start(*command)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("step 5/"):
            break
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert (
        err.splitlines()[-1] == "interrupted: stopped by SIGINT at small, seed 1; the same command goes on from there"
    )
    assert "Traceback" not in err
    ran = anyorder(*command)
    assert ran.code == 0, ran.err
    assert Path("both/report.html").is_file()


def start(*argv: object) -> subprocess.Popen[str]:
    code = "import sys; from anyorder.cli.main import main; sys.exit(main(sys.argv[1:]))"
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, argv)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_on_again(anyorder: Callable, recipe: Path, signum: signal.Signals) -> None:
    settings = ("--set", "train.steps=3000", "--set", "train.checkpoint_every=3000")
    process = start("train", recipe, *settings, "--out", "run")
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("step 5/"):
            break
    process.send_signal(signum)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (128 + signum, "")
    assert "Traceback" not in err
    told = rf"interrupted: stopped by {signum.name} after step (\d+) of 3000; go on with --resume"
    said = re.fullmatch(told, err.splitlines()[-1])
    assert said is not None, err
    found = Path(f"run/checkpoints/step-{int(said[1]):08d}")
    assert load_file(found / "model.safetensors")
    resumed = start("train", recipe, *settings, "--out", "run", "--resume")
    assert resumed.stderr is not None
    assert any(f"continuing from step {said[1]} " in line for line in resumed.stderr)
    resumed.kill()
    resumed.communicate()


@pytest.mark.slow
def test_ui_answers_and_stops(anyorder: Callable, refused: Callable, recipe: Path) -> None:
    tracked = ("--set", "tracking={type: mlflow, system_metrics: false}")
    assert anyorder("train", recipe, *tracked, "--out", "runs/one").code == 0
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = start("ui", "runs", "--port", port)  # its own signal reaches no child of it, as a terminal's would
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == f"http://127.0.0.1:{port} shows the runs of runs (Ctrl-C ends it)\n"
        for _ in range(240):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as answer:
                    assert answer.status == 200
                break
            except OSError:
                assert process.poll() is None, process.communicate()
                time.sleep(0.25)
        else:
            pytest.fail("it never answered")
        assert refused("ui", "runs", "--port", port) == f"port {port} is taken; choose another with --port"
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    with pytest.raises(OSError, match=r"refused|reset"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2)
    assert "Traceback" not in err
