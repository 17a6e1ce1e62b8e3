"""What a recipe comes to: parents, removal by null, settings over it, its own dump, and warnings."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyorder.train.recipe import Recipe, load_recipe
from anyorder.train.recipe.source import dump_yaml, parse_yaml

RECIPES = Path(__file__).parents[3] / "recipes"
BASE = """\
data: {vocab_size: 300, length: 32}
model: {n_layer: 1, d_model: 16, n_head: 2, d_inner: 32}
objective:
  order: {type: permutation, perm_size: 16, targets: {type: last_fraction, k: 4}}
  masks: {type: two_stream}
  loss: {type: cross_entropy}
memory: {type: segment, mem_len: 24, reuse_len: 16}
train: {steps: 5, batch_size: 4}
tracking: none
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base.yaml").write_text(BASE)
    return tmp_path


def read(text: str, *settings: str, name: str = "r.yaml") -> Recipe:
    Path(name).write_text(text)
    return load_recipe(name, overrides=settings)


def notes(path: str, *settings: str) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load_recipe(path, overrides=settings)
    return [str(item.message) for item in caught]


@pytest.mark.parametrize(
    "path", sorted(RECIPES.glob("[gq]*/*.yaml")), ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_our_recipes_read_and_so_do_their_dumps(path: Path) -> None:
    recipe = load_recipe(path)
    assert recipe.name == path.stem
    again = read(recipe.dump())
    assert (again.tree, again.digest) == (recipe.tree, recipe.digest)
    assert notes("r.yaml") == []


def test_the_nearest_value_wins(here: Path) -> None:
    (here / "middle.yaml").write_text("extends: base.yaml\ntrain: {steps: 6, clip: 2.0}\n")
    recipe = read("extends: middle.yaml\ntrain: {steps: 7}\n", "train.steps=8", "train.steps=9")
    train = recipe.tree["train"]
    assert (train["steps"], train["clip"], train["batch_size"]) == (9, 2.0, 4)
    assert recipe.origins["train.steps"] == "--set train.steps=9"
    assert recipe.origins["train.clip"] == "middle.yaml:2"
    assert recipe.origins["train.batch_size"] == "base.yaml:8"
    assert recipe.origins["train.keep"] == "default"


def test_null_takes_back_what_a_parent_said() -> None:
    recipe = read("extends: base.yaml\nmemory: null\nobjective: {order: {perm_size: null, targets: null}}\n")
    assert recipe.tree["memory"] == {"type": "none"}
    assert recipe.tree["objective"]["order"]["perm_size"] is None
    assert recipe.sections["objective"]["order"].build().perm_size is None
    assert read("extends: base.yaml\n", "memory=null").tree == recipe.tree | {
        "objective": read("extends: base.yaml\n").tree["objective"]
    }


def test_null_where_none_is_a_value_is_that_value() -> None:
    assert read("extends: base.yaml\ntrain: {clip: null}\n").sections["train"].build().clip is None


def test_another_type_takes_none_of_the_parents_arguments() -> None:
    recipe = read("extends: base.yaml\nobjective: {order: {type: subset}}\n")
    assert "perm_size" not in recipe.tree["objective"]["order"]
    assert recipe.tree["objective"]["masks"] == {"type": "two_stream"}


@pytest.mark.parametrize("written", ["1e-3", "1E-3", "0.001", "1.0e-3", ".001", "+1e-03"])
def test_a_number_is_a_number_however_it_is_written(written: str) -> None:
    assert read(f"extends: base.yaml\noptimizer: {{lr: {written}}}\n").tree["optimizer"]["lr"] == 0.001
    assert read("extends: base.yaml\n", f"optimizer.lr={written}").tree["optimizer"]["lr"] == 0.001


def test_other_readers_surprises_are_text_or_decimal() -> None:
    node = parse_yaml("{a: 010, b: 2001-01-01, c: 1:30, d: 0x10, e: '5', f: ~}", name="x", folder=Path())
    assert node.value["a"].value == 10
    assert node.plain() == {"a": 10, "b": "2001-01-01", "c": "1:30", "d": 16, "e": "5"}


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.from_regex(r"[a-z_]\w*", fullmatch=True), inner),
    max_leaves=8,
)


@given(value=PLAIN)
def test_what_is_dumped_is_read_back(value: object) -> None:
    def without_nulls(part: object) -> object:
        if isinstance(part, dict):
            return {key: without_nulls(item) for key, item in part.items() if item is not None}
        return [without_nulls(item) for item in part] if isinstance(part, list) else part

    text = dump_yaml({"key": value})
    assert parse_yaml(text, name="x", folder=Path()).plain() == without_nulls({"key": value})


def test_a_setting_without_effect_warns_where_it_stands(here: Path) -> None:
    Path("r.yaml").write_text(f"extends: base.yaml\ndata: {{corpus: {here}}}\n")
    assert notes("r.yaml") == ["base.yaml:1: data.vocab_size has no effect: data.corpus brings its tokenizer"]
    Path("r.yaml").write_text("extends: base.yaml\nmemory: {mem_len: 8}\n")
    assert notes("r.yaml") == [
        "r.yaml:2: memory.mem_len 8 is less than the 16 tokens that each segment offers, so some are never seen"
    ]


def test_a_run_s_own_recipe_warns_of_nothing(here: Path) -> None:
    recipe = read(BASE.replace("vocab_size: 300", f"corpus: {here}"))
    assert notes("r.yaml") == []
    assert "vocab_size" not in recipe.tree["data"]
    dumped = read(recipe.dump(), name="dumped.yaml")
    assert notes("dumped.yaml") == []
    assert dumped.digest == recipe.digest


def test_a_part_beside_the_recipe(here: Path) -> None:
    (here / "beside_parts.py").write_text(
        "from anyorder.orders import Permutation\n\n\nclass Backwards(Permutation):\n"
        "    def __init__(self, *, width: int = 2) -> None:\n"
        "        super().__init__()\n        self.__dict__['width'] = width\n"
    )
    recipe = read("extends: base.yaml\nobjective: {order: {type: beside_parts.Backwards, width: 3}}\n")
    assert recipe.sections["objective"]["order"].build().width == 3
    assert recipe.tree["objective"]["order"] == {"type": "beside_parts.Backwards", "width": 3}
    assert [file.name for file in recipe.own_files()] == ["beside_parts.py"]
    assert (
        read("extends: base.yaml\nobjective: {order: {type: beside_parts.Backwards}}\n").tree["objective"]["order"][
            "width"
        ]
        == 2
    )


def test_the_digest_follows_the_result_and_nothing_else() -> None:
    digest = read("extends: base.yaml\n").digest
    for same in ("name=other", "train.keep=5", "train.log_every=3", "tracking=mlflow", "train.device=cpu"):
        assert read("extends: base.yaml\n", same).digest == digest, same
    for other in ("seed=2", "train.steps=6", "model.n_layer=2", "optimizer.lr=0.5", "data.vocab_size=301"):
        assert read("extends: base.yaml\n", other).digest != digest, other


def test_reading_a_recipe_does_not_depend_on_the_working_folder(here: Path) -> None:
    (here / "deep").mkdir()
    (here / "deep" / "r.yaml").write_text("extends: ../base.yaml\ndata: {corpus: text, vocab_size: null}\n")
    first = load_recipe("deep/r.yaml").tree["data"]["corpus"]
    os.chdir(here / "deep")
    assert load_recipe("r.yaml").tree["data"]["corpus"] == first == str(here.resolve() / "deep" / "text")


@pytest.mark.slow
def test_reading_a_recipe_loads_no_tracker_and_no_reader() -> None:
    code = (
        "import sys; from anyorder.train.recipe import load_recipe; load_recipe('base.yaml'); "
        "print([m for m in ('mlflow', 'datasets', 'pyarrow', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
