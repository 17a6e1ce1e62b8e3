"""`anyorder train --from` an official checkpoint that was imported with the moments of its optimiser."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from safetensors.torch import load_file

from anyorder.cli.main import main

from .prepared import prepared

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "data" / "golden"
PIECES = GOLDEN / "spm" / "spiece.model"
BIAS = "heads.loss.bias"

pytestmark = pytest.mark.filterwarnings("ignore:model. the weights of", "ignore:.*data.vocab_size has no effect")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared(tmp_path_factory.mktemp("corpus"), tokenizer=PIECES)


@pytest.fixture(params=["untied", "tied"])
def imported(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = tmp_path / "imported"
    source = ["tf", str(GOLDEN / f"ckpt_{request.param}"), "--tokenizer", str(PIECES)]
    assert main(["import", *source, "--optimizer", "--out", str(folder)]) == 0
    return folder


def train(start: Path, run: Path, corpus: Path, settings: Sequence[str], *, resume: bool = False) -> None:
    settings = [
        f"data.corpus={corpus}",
        "train.steps=3",
        "train.batch_size=2",
        "train.checkpoint_every=1",
        "train.keep=3",
        "train.device=cpu",
        "tracking.type=none",
        *settings,
    ]
    given = [part for setting in settings for part in ("--set", setting)]
    recipe = str(ROOT / "recipes" / "quickstart" / "plm.yaml")
    again = ["--resume"] if resume else []
    assert main(["train", recipe, "--from", str(start), "--out", str(run), *again, *given]) == 0


def state(run: Path, step: int) -> dict[str, float]:
    """How many steps the optimiser counts for each weight."""
    tensors = load_file(run / f"checkpoints/step-{step:08d}/optimizer.safetensors")
    return {name.removesuffix("/step"): float(value) for name, value in tensors.items() if name.endswith("/step")}


def test_the_same_kind_of_optimiser_goes_on(
    imported: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    settings = ["optimizer={type: xlnet_adam, lr: 1e-5}", "data.layout=pairs"]  # pairs, so that segments learn too
    train(imported, run, corpus, settings)
    lines = [line for line in capsys.readouterr().err.splitlines() if "optimiser" in line]
    counted = state(run, 1)
    assert lines == [
        f"the optimiser goes on from step 4 of {imported.resolve()}, with the moments of {len(counted)} weights"
    ]
    assert set(counted.values()) == {5}
    first = load_file(run / "checkpoints/step-00000001/optimizer.safetensors")[f"{BIAS}/exp_avg_sq"]
    kept = load_file(imported / "optimizer.safetensors")[f"{BIAS}/exp_avg_sq"]
    assert bool((first >= 0.999 * kept).all())  # b2 of what was, and something more

    train(imported, run, corpus, settings, resume=True)
    assert "goes on from step 4" not in capsys.readouterr().err
    assert set(state(run, 3).values()) == {7}


def test_another_kind_begins_anew_and_says_so(
    imported: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(imported, tmp_path / "run", corpus, ["optimizer={type: adamw, lr: 1e-5}"])
    said = "moments in {} are left: only optimizer.type xlnet_adam goes on with them"
    assert said.format(imported.resolve()) in capsys.readouterr().err
    assert set(state(tmp_path / "run", 1).values()) == {1}


def test_weights_without_moments_begin_without(
    imported: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An auxiliary head is the recipe's own."""
    settings = [
        "optimizer={type: xlnet_adam, lr: 1e-5}",
        "data.layout=pairs",
        "objective.auxiliary={next: {type: next_sentence}}",
    ]
    train(imported, tmp_path / "run", corpus, settings)
    line = next(line for line in capsys.readouterr().err.splitlines() if "optimiser" in line)
    counted = state(tmp_path / "run", 1)
    fresh = sorted(name for name in counted if name.startswith("heads.next."))
    assert fresh
    assert f"; {', '.join(fresh[:3])}" in line
    assert line.endswith("had none")
    assert {name: steps for name, steps in counted.items() if steps == 1}.keys() == set(fresh)
    assert {steps for name, steps in counted.items() if name not in fresh} == {5}
