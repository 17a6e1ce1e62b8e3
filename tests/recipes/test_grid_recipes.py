"""The recipes of the grid: each is read, trains, learns and leaks nothing; together they are the whole grid."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest

from anyorder.cli.leak_audit import audit
from anyorder.core import available
from anyorder.train.assemble import sizes
from anyorder.train.progress import SilentProgress
from anyorder.train.recipe import Recipe, load_recipe
from anyorder.train.run import run

pytestmark = pytest.mark.usefixtures("draw_nothing")
ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "recipes" / "grid").glob("*.yaml"))
NAMES = [path.stem for path in RECIPES]
TINY = ("model.n_layer=1", "model.d_model=16", "model.n_head=2", "model.d_inner=16")
QUIET = ("tracking=none", "train.device=cpu")


@lru_cache
def as_they_stand() -> tuple[Recipe, ...]:
    return tuple(load_recipe(path) for path in RECIPES)


@pytest.mark.parametrize("path", RECIPES, ids=NAMES)
def test_a_recipe_trains_two_steps(path: Path, corpus: Path, tmp_path: Path) -> None:
    settings = (f"data.corpus={corpus}", "data.vocab_size=null", "train.steps=2", "train.batch_size=4")
    recipe = load_recipe(path, overrides=(*TINY, *QUIET, *settings))
    result = run(recipe, folder=tmp_path / "run", progress=SilentProgress())
    assert result.step == 2


@pytest.mark.slow
@pytest.mark.parametrize("path", RECIPES, ids=NAMES)
def test_a_recipe_leaks_nothing(path: Path, corpus: Path) -> None:
    settings = (f"data.corpus={corpus}", "data.vocab_size=null", "train.batch_size=4")
    assert audit(load_recipe(path, overrides=(*TINY, *QUIET, *settings)), step=0) == 0


@pytest.mark.slow
@pytest.mark.parametrize("path", RECIPES, ids=NAMES)
def test_a_recipe_learns(path: Path, tmp_path: Path) -> None:
    """As it stands, on the prose that ships: the held-out loss is well under that of the untrained model."""
    recipe = load_recipe(path, overrides=QUIET)
    records = run(recipe, folder=tmp_path / "run", progress=SilentProgress()).records
    held_out = [record["valid/loss"] for record in records if "valid/loss" in record]
    assert held_out[-1] < 0.9 * records[0]["loss"], (records[0]["loss"], held_out)


def test_recipes_are_named_after_their_files_and_spend_the_same_budget() -> None:
    recipes = as_they_stand()
    assert [recipe.name for recipe in recipes] == NAMES
    assert {recipe.sections["train"].get("steps") for recipe in recipes} == {60}
    assert {sizes(recipe).tokens_per_step for recipe in recipes} == {1024}


def test_recipes_use_every_order_and_every_mask_builder() -> None:
    objectives = [recipe.tree["objective"] for recipe in as_they_stand()]
    orders = {part["type"] for tree in objectives for part in (tree["order"], *tree["order"].get("parts", ()))}
    masks = {tree["masks"]["type"] for tree in objectives}
    assert set(available("order")) - {"zigzag"} <= orders
    assert set(available("masks")) - {"mask_slots"} <= masks


def test_at_least_six_cells_are_new_and_differ_from_every_published_one() -> None:
    new, known = [], []
    for recipe in as_they_stand():
        tree = recipe.tree["objective"]
        order, masks = tree["order"], tree["masks"]
        cell = (order["type"], order.get("context"), masks["type"], masks.get("visibility"))
        (new if recipe.name.startswith("new_") else known).append(cell)
    assert len(set(new)) == len(new) >= 6
    assert not set(new) & set(known)
