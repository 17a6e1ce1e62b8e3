"""XLNet's recipes and those of the paper's table 6: what they come to, what differs, and that they train."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from anyorder.cli import show
from anyorder.core import RecipeError
from anyorder.data import Tokenizer
from anyorder.data.xlnet import OfficialSpans, RecordLayout, prepare_records
from anyorder.train.assemble import assemble, open_text, sizes
from anyorder.train.recipe import Recipe, load_recipe
from anyorder.train.run import run
from anyorder.train.tracking import flatten

pytestmark = pytest.mark.usefixtures("draw_nothing")
ROOT = Path(__file__).parents[2]
DATA = ROOT / "packages" / "anyorder-data" / "tests" / "data"
TABLE6 = sorted((ROOT / "recipes" / "table6").glob("*.yaml"))
RECIPES = [*sorted((ROOT / "recipes" / "xlnet").glob("*.yaml")), *TABLE6]
ROW4 = ROOT / "recipes" / "table6" / "4_xlnet_k6.yaml"

DIFFERENCES = {  # from row 4, the paper's K=6
    "1_bert": {"data.bidirectional", "data.isolate_reuse", "model.", "memory.", "objective."},
    "2_dae_transformer_xl": {"objective.order", "objective.masks"},
    "3_xlnet_k7": {"objective.order.targets.k"},
    "4_xlnet_k6": set(),
    "5_without_memory": {"memory."},
    "6_without_spans": {"objective.order.targets"},
    "7_without_bidirectional_data": {"data.bidirectional"},
    "8_with_next_sentence": {"objective.auxiliary"},
}


def mini(path: Path, corpus: Path, *settings: str) -> Recipe:
    small = ("scale=mini", f"data.corpus={corpus}", "data.vocab_size=null", "train.steps=2", "train.batch_size=4")
    return load_recipe(path, overrides=(*small, "tracking=none", "train.device=cpu", *settings))


def test_the_table_has_eight_rows() -> None:
    assert [path.stem for path in TABLE6] == sorted(DIFFERENCES)


@pytest.mark.parametrize("scale", ["paper", "mini"])
@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_show(path: Path, scale: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    show.configure(parser)
    assert show.run(parser.parse_args([str(path), "--set", f"scale={scale}"])) == 0
    shown = capsys.readouterr().out
    assert f"name: {load_recipe(path).name}" in shown
    assert ("rows of 512" in shown) == (scale == "paper")


@pytest.mark.parametrize("scale", ["paper", "mini"])
@pytest.mark.parametrize("path", TABLE6, ids=lambda path: path.stem)
def test_a_row_differs_from_the_fourth_in_what_it_says(path: Path, scale: str) -> None:
    own, fourth = (flatten(load_recipe(p, overrides=[f"scale={scale}"]).tree) for p in (path, ROW4))
    changed = {key for key in own | fourth if own.get(key) != fourth.get(key)} - {"name"}
    expected = DIFFERENCES[path.stem]
    assert all(any(key.startswith(prefix) for prefix in expected) for key in changed), changed
    assert all(any(key.startswith(prefix) for key in changed) for prefix in expected), changed


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_two_steps(path: Path, corpus: Path, tmp_path: Path) -> None:
    result = run(mini(path, corpus), folder=tmp_path / "run")
    assert result.step == 2
    assert len(result.records) == 2


def test_the_published_sizes() -> None:
    base, large = (load_recipe(ROOT / "recipes" / "xlnet" / f"{name}.yaml") for name in ("base", "large"))
    assert {key: base.tree["model"][key] for key in ("n_layer", "d_model", "n_head", "d_inner")} == {
        "n_layer": 12,
        "d_model": 768,
        "n_head": 12,
        "d_inner": 3072,
    }
    assert (large.tree["model"]["n_layer"], large.tree["model"]["d_model"]) == (24, 1024)
    assert (large.tree["train"]["steps"], large.tree["train"]["batch_size"]) == (500_000, 8192)
    assert (large.tree["schedule"]["warmup"], large.tree["optimizer"]["lr"]) == (40_000, 4e-4)
    for recipe in (base, large):
        found = sizes(recipe)
        assert (found.length, found.stride, found.mem_len, found.targets) == (512, 256, 384, 85)


def test_bert_sees_its_whole_segment_and_nothing_else(corpus: Path) -> None:
    recipe = mini(ROOT / "recipes" / "table6" / "1_bert.yaml", corpus)
    data = open_text(recipe)
    objective = assemble(recipe, vocab=data.vocab)
    assert objective.empty_memory(4) is None or objective.empty_memory(4).length == 0
    batch = data.train.batch(0)
    assert batch.block is None
    assert batch.direction is None
    plan = objective.plan(batch, seed=1, step=0)
    assert int(plan.time.max()) == 1
    assert objective.backbone.absolute.position.num_embeddings == 512
    assert all(len(layer.attention.biases) == 0 for layer in objective.backbone.layers)


def test_what_bert_gives_up_needs_what_it_has(corpus: Path) -> None:
    with pytest.raises(RecipeError, match=r"data\.isolate_reuse: memory would keep what it has seen"):
        mini(ROW4, corpus, "data.isolate_reuse=false")
    with pytest.raises(RecipeError, match=r"model\.absolute_positions: 100 positions are fewer than the 128 tokens"):
        mini(ROOT / "recipes" / "table6" / "1_bert.yaml", corpus, "model.absolute_positions=100")


def test_scales_are_chosen_by_name(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"scale: no scale is called 'mimi'; there are paper, mini; did you mean"):
        load_recipe(ROW4, overrides=["scale=mimi"])
    quickstart = ROOT / "recipes" / "quickstart" / "plm.yaml"
    with pytest.raises(RecipeError, match="neither the recipe nor a parent has scales"):
        load_recipe(quickstart, overrides=["scale=mini"])
    child = tmp_path / "child.yaml"
    child.write_text(f"extends: {ROW4}\nscale: mini\noptimizer: {{lr: 0.5}}\n")
    assert load_recipe(child).tree["model"]["n_layer"] == 2
    assert load_recipe(child).tree["optimizer"]["lr"] == 0.5  # over what the parent's scale says
    assert load_recipe(child, overrides=["scale=paper"]).tree["model"]["n_layer"] == 12
    bare = tmp_path / "bare.yaml"
    bare.write_text(f"scales: {{a: {{seed: 3}}, b: null}}\nextends: {quickstart}\n")
    with pytest.raises(RecipeError, match="scale: missing: which of a, b"):
        load_recipe(bare)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_official_records_are_trained_on(corpus: Path, tmp_path: Path, bidirectional: bool) -> None:
    layout = RecordLayout(
        rows=4, length=128, reuse=64, bidirectional=bidirectional, targets=21, spans=OfficialSpans(alpha=6)
    )
    tokenizer = Tokenizer.load(DATA / "spiece.model")
    files = [DATA / "a.txt", DATA / "b.txt"]
    prepare_records(files, tmp_path / "records", tokenizer=tokenizer, layout=layout, seed=1)
    path = tmp_path / "on_records.yaml"
    path.write_text(
        f"extends: {ROOT}/recipes/xlnet/base.yaml\n"
        f"data: {{type: xlnet_records, path: records, corpus: {corpus}, length: 128, "
        f"bidirectional: {str(bidirectional).lower()}}}\n"
        "objective: {order: {targets: {type: recorded, num_predict: 21}}}\n"
        "train: {steps: 3, batch_size: 4, device: cpu}\n"
        "tracking: none\n"
        "scale: mini\n"
    )
    recipe = load_recipe(path)
    result = run(recipe, folder=tmp_path / "run")
    # Targets are those of the records, less the SEP and CLS among them: their number needs no drawing.
    data = open_text(recipe)
    own = [int((data.train.batch(step).target & ~data.train.batch(step).fixed).sum()) for step in range(3)]
    assert [record["targets"] for record in result.records] == own
    assert (data.valid.batch(0).ids != data.train.batch(0).ids).any()
    assert load_recipe(tmp_path / "run" / "recipe.yaml").digest == recipe.digest


def test_a_damaged_record_is_one_line_at_its_place(corpus: Path, tmp_path: Path) -> None:
    file = next((DATA / "records").glob("*.tfrecords"))
    (tmp_path / file.name).write_bytes(file.read_bytes()[:-3])
    path = tmp_path / "r.yaml"
    path.write_text(
        f"extends: {ROOT}/recipes/xlnet/base.yaml\nscale: mini\n"
        f"data: {{type: xlnet_records, path: ., corpus: {corpus}, length: 64}}\n"
        "memory: {mem_len: 48, reuse_len: 32}\n"
        "objective: {order: {perm_size: 32, targets: {type: recorded, num_predict: 10}}}\n"
        "train: {steps: 2, batch_size: 4}\ntracking: none\n"
    )
    with pytest.raises(RecipeError, match=r"r\.yaml:\d+: data: .*cut short in record 123") as caught:
        open_text(load_recipe(path))
    assert "\n" not in str(caught.value)
