"""Every way to get a recipe wrong gives one line: file and line, dotted path, value, what is allowed, nearest name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from anyorder.core import IncompatiblePartsError, RecipeError
from anyorder.train.recipe import load_recipe

BASE = """\
name: base
data: {vocab_size: 300, length: 32}
model: {n_layer: 1, d_model: 16, n_head: 2, d_inner: 32}
objective:
  order: {type: permutation, perm_size: 16}
  masks: {type: two_stream}
  loss: {type: cross_entropy}
memory: {type: segment, mem_len: 24, reuse_len: 16}
train: {steps: 5, batch_size: 4}
tracking: none
"""
ZIGZAG = """\
from anyorder.orders import Permutation


class Zigzag(Permutation):
    def __init__(self, *, width: int = 2) -> None:
        super().__init__()
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base.yaml").write_text(BASE)
    (tmp_path / "own_parts.py").write_text(ZIGZAG)
    return tmp_path


def problem(text: str, *settings: str) -> str:
    Path("r.yaml").write_text(text)
    with pytest.raises(RecipeError) as caught:
        load_recipe("r.yaml", overrides=settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


ORDER = "objective:\n  order: "

# What stands after `extends: base.yaml`; where the error lies; what it says.
WRONG = {
    "misspelt section": ("optimiser: {}", "r.yaml:2: optimiser", "keys are name, seed, data, .*mean 'optimizer'"),
    "misspelt setting": ("train: {step: 5}", "r.yaml:2: train.step", "keys are steps, batch_size.*mean 'steps'"),
    "misspelt argument": (
        ORDER + "{perm_siz: 4}",
        "r.yaml:3: objective.order.perm_siz",
        "keys of 'permutation' are targets, perm_size, .*mean 'perm_size'",
    ),
    "misspelt argument of a nested part": (
        ORDER + "{targets: {type: ngram_spans, max: 4}}",
        "r.yaml:3: objective.order.targets.max",
        "keys of 'ngram_spans' are k, max_n,.*mean 'max_n'",
    ),
    "misspelt argument of a third party's part": (
        ORDER + "{type: own_parts.Zigzag, widht: 3}",
        "r.yaml:3: objective.order.widht",
        "keys of 'own_parts.Zigzag' are width; did you mean 'width'",
    ),
    "wrong type in a third party's part": (
        ORDER + "{type: own_parts.Zigzag, width: wide}",
        "r.yaml:3: objective.order.width",
        "'wide' is not a whole number",
    ),
    "no such class": (
        ORDER + "own_parts.Zigzagg",
        "r.yaml:3: objective.order.type",
        "'own_parts' has no class 'Zigzagg'; did you mean 'Zigzag'",
    ),
    "no such module": (ORDER + "own_part.Zigzag", "r.yaml:3: objective.order.type", "No module named 'own_part'"),
    "unknown part": (
        ORDER + "{type: permutaton}",
        "r.yaml:3: objective.order.type",
        "no order part is called 'permutaton' .available: .*left_to_right.*mean 'permutation'",
    ),
    "unknown nested part": (
        ORDER + "{targets: ngram_span}",
        "r.yaml:3: objective.order.targets.type",
        "'ngram_span'.*last_fraction.*mean 'ngram_spans'",
    ),
    "unknown optimizer": ("optimizer: adamv", "r.yaml:2: optimizer.type", "'adamv'.*adamw, .*mean 'adamw'"),
    "unknown tracking": ("tracking: wandb", "r.yaml:2: tracking.type", "'wandb'.*mlflow, none"),
    "a word for a number": ("train: {steps: many}", "r.yaml:2: train.steps", "'many' is not a whole number"),
    "a quoted number": ("train: {steps: '5'}", "r.yaml:2: train.steps", "'5' is not a whole number"),
    "a fraction": ("train: {steps: 1.5}", "r.yaml:2: train.steps", "1.5 is not a whole number"),
    "a list": ("train: {steps: [5]}", "r.yaml:2: train.steps", r"\[5\] is not a whole number"),
    "a mapping": ("train: {steps: {a: 1}}", "r.yaml:2: train.steps", "{'a': 1} is not a whole number"),
    "a number for a truth": ("train: {compile: 1}", "r.yaml:2: train.compile", "1 is not true or false"),
    "yes": ("train: {compile: yes}", "r.yaml:2: train.compile", "'yes' is a boolean to some.*write true or false"),
    "not a number": ("optimizer: {lr: .nan}", "r.yaml:2: optimizer.lr", "nan is not a number"),
    "a section that is a number": ("train: 5", "r.yaml:2: train", "5 is not a mapping"),
    "another word": ("train: {precision: bf61}", "r.yaml:2: train.precision", "one of fp32, bf16.*mean 'bf16'"),
    "a short list": ("optimizer: {betas: [0.9]}", "r.yaml:2: optimizer.betas", "a list of 2 entries, each a number"),
    "out of range": ("train: {steps: -1}", "r.yaml:2: train.steps", "-1; it must be 1 or more"),
    "no length": ("data: {length: 0}", "r.yaml:2: data.length", "length is 0; it must be 1 or more"),
    "no vocabulary": ("data: {vocab_size: -3}", "r.yaml:2: data.vocab_size", "vocab_size is -3; it must be 1 or more"),
    "negative rate": ("optimizer: {lr: -1e-3}", "r.yaml:2: optimizer.lr", "-0.001; it must be above 0"),
    "unnamed part": ("attention: null\nmemory: {type: null}", "r.yaml:3: memory.type", "missing: .*none, segment"),
    "no order": (
        "objective: {order: null}",
        "r.yaml:2: objective.order",
        "missing: an objective has order, masks, loss",
    ),
    "K": (ORDER + "{targets: {type: last_fraction, k: 0}}", "r.yaml:3: objective.order.targets.k", "must be 1 or more"),
    "perm_size": (
        ORDER + "{perm_size: 5}",
        "r.yaml:3: objective.order.perm_size",
        "5 does not divide the row length 32; allowed: 1, 2, 4, 8, 16, 32",
    ),
    "perm_size across the kept part": (
        ORDER + "{perm_size: 32}",
        "r.yaml:3: objective.order.perm_size",
        "does not divide both parts of a segment, 16 and 16",
    ),
    "reuse_len": (
        "memory: {reuse_len: 64}",
        "r.yaml:2: memory.reuse_len",
        "64 tokens cannot be kept.*allowed: 1 to 32",
    ),
    "stride against reuse_len": ("data: {stride: 8}", "r.yaml:2: data.stride", "8 is how far .*reuse_len keeps 16"),
    "odd rows": (
        "data: {bidirectional: true}\ntrain: {batch_size: 3}",
        "r.yaml:3: train.batch_size",
        "3 rows cannot be half forwards and half backwards .*even",
    ),
    "accumulate": ("train: {accumulate: 3}", "r.yaml:2: train.accumulate", "3 does not divide train.batch_size"),
    "heads": ("model: {n_head: 3}", "r.yaml:2: model.n_head", "3 heads do not divide d_model, which is 16"),
    "warm-up": ("schedule: {warmup: 10}", "r.yaml:2: schedule.warmup", "10 steps and the run has 5"),
    "warm-up of the official schedule": (
        "schedule: {type: xlnet, warmup: 10}",
        "r.yaml:2: schedule.warmup",
        "10 steps and the run has 5",
    ),
    "schedule": ("schedule: {type: xlnett}", "r.yaml:2: schedule.type", "no schedule is called 'xlnett'.*'xlnet'"),
    "what is no schedule": (
        "schedule: {type: own_parts.Zigzag}",
        "r.yaml:2: schedule.type",
        "'own_parts.Zigzag' has no factor, which",
    ),
    "a schedule's key": ("schedule: {type: xlnet, warm: 1}", "r.yaml:2: schedule.warm", "did you mean 'warmup'"),
    "not for a recipe": ("data: {batch_size: 4}", "r.yaml:2: data.batch_size", "it is train.batch_size"),
    "name": ("name: a/b", "r.yaml:2: name", "'a/b' is not a folder's name"),
    "duplicate section": ("train: {}\ntrain: {}", "r.yaml:3: train", "stands here twice .first at r.yaml:2"),
    "duplicate key": ("train: {steps: 5, steps: 6}", "r.yaml:2: train.steps", "stands here twice"),
    "tab": ("train:\n\tsteps: 5", "r.yaml:3", "a tab where YAML wants spaces"),
    "alias": ("train: &a {}\nmodel: *a", "r.yaml:3", "aliases are not read; use extends"),
    "tag": ("train: {steps: !!python/name:os.abort 5}", "r.yaml:2: train.steps", "the YAML tag .* is not read"),
    "unclosed": ("train: {steps: 5", "r.yaml:3", "not valid YAML"),
    "a number as a key": ("5: 3", "r.yaml:2", "a key is a name, not 5"),
    "two documents": ("---\na: 1", "r.yaml:2", "another document"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_recipe_is_one_line(case: str) -> None:
    text, where, what = WRONG[case]
    said = problem(f"extends: base.yaml\n{text}\n")
    assert said.startswith(f"{where}: "), said
    assert re.search(what, said.removeprefix(where)), said


def test_shift_with_permutation_is_refused_with_the_remedy() -> None:
    Path("r.yaml").write_text("extends: base.yaml\nobjective: {masks: {type: shift}}\n")
    with pytest.raises(IncompatiblePartsError) as caught:
        load_recipe("r.yaml")
    assert str(caught.value) == (
        "r.yaml:2: objective.masks.type: masks.type 'shift' needs an order with trait 'consecutive'; 'permutation' "
        "offers 'permutation': use two_stream, which takes any order, or order.type 'left_to_right' or 'prefix'"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "r.yaml: a recipe is a mapping of sections"),
        ("- a\n", "r.yaml: a recipe is a mapping of sections"),
        ("extends: r.yaml\n", "r.yaml:1: extends: recipes extend each other in a circle: r.yaml -> r.yaml"),
        ("extends: nope.yaml\n", "r.yaml:1: extends: there is no file 'nope.yaml' next to it"),
        ("extends: [base.yaml]\n", "r.yaml:1: extends: a recipe has one parent, the path of a file"),
        ("name: r\n", "r.yaml:1: model.n_layer: missing: it is needed (a whole number)"),
        ("model: {preset: tiny}\n", "r.yaml:1: objective.order: missing: an objective has order, masks, loss"),
    ],
)
def test_a_wrong_file_is_one_line(text: str, said: str) -> None:
    assert problem(text).startswith(said)


def test_a_circle_of_three_is_found() -> None:
    Path("a.yaml").write_text("extends: b.yaml\n")
    Path("b.yaml").write_text("extends: r.yaml\n")
    assert "in a circle: r.yaml -> a.yaml -> b.yaml -> r.yaml" in problem("extends: a.yaml\n")


def test_a_missing_recipe_names_its_neighbours(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"^bse.yaml: there is no such recipe .*base.yaml"):
        load_recipe("bse.yaml")
    with pytest.raises(RecipeError, match=r"is a folder; name a recipe in it \(\./ has base.yaml\)"):
        load_recipe(tmp_path)


def test_a_recipe_that_is_not_utf_8(tmp_path: Path) -> None:
    Path("latin.yaml").write_bytes(b"name: caf\xe9\n")
    with pytest.raises(RecipeError, match=r"^latin.yaml: not UTF-8 text \(byte 9\)$"):
        load_recipe("latin.yaml")


@pytest.mark.parametrize(
    ("setting", "where", "what"),
    [
        ("train.stps=5", "train.stps", "unknown key 'stps'.*mean 'steps'"),
        ("trian.steps=5", "trian", "unknown key 'trian'.*mean 'train'"),
        ("train=5", "train", "5 is not a mapping of settings"),
        ("train.steps.x=5", "train.steps", "{'x': 5} is not a whole number"),
        ("train.steps=", "train.steps", "the value is missing; null removes a key"),
        ("train.steps", "", "written path.to.key=value"),
        ("train..steps=5", "", "written path.to.key=value"),
        ("train.steps=[", "", "not valid YAML"),
        ("extends=base.yaml", "extends", "only a file can extend another"),
        ("objective.order.targets.k=0", "objective.order.targets.type", "missing: the name of the part"),
    ],
)
def test_a_wrong_setting_of_the_command_line_is_one_line(setting: str, where: str, what: str) -> None:
    said = problem("extends: base.yaml\n", setting)
    assert said.startswith(f"--set {setting}: {where}"), said
    assert re.search(what, said), said
