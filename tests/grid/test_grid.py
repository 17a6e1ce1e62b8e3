"""Every order, mask builder, memory and head: it trains and does not leak, or it is refused. No third outcome."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from anyorder.core import AnyorderError, BackboneOutput, MemoryState, Plan, RecipeError, Streams, TokenBatch
from anyorder.masks import InPlace
from anyorder.train.objective import Objective

from .cells import HEADS, LENGTH, MASKS, MEMORIES, ORDERS, TABLE, Cell, cells, load, read, table, train, unnamed

PAIRS = list(itertools.product(ORDERS, MASKS))
SURROUNDINGS = list(itertools.product(MEMORIES, HEADS))


def trains_or_is_refused(cell: Cell) -> None:
    recipe = read(cell)
    if isinstance(recipe, str):
        assert recipe in TABLE.read_text(encoding="utf-8"), f"{cell}: {recipe!r} is no documented reason"
    else:
        try:
            train(cell, recipe)
        except AnyorderError as error:
            raise AssertionError(f"{cell} is refused only while it runs: {error}") from error


@pytest.mark.parametrize("number", range(len(PAIRS)), ids=[" | ".join(pair) for pair in PAIRS])
def test_every_order_under_every_mask_builder(number: int) -> None:
    """With memory and head taken in turn; the slow test takes all of them."""
    order, masks = PAIRS[number]
    turn = number + number // len(MASKS)  # so that a mask builder does not meet the same surroundings in every row
    memory, head = SURROUNDINGS[turn % len(SURROUNDINGS)]
    trains_or_is_refused(Cell(order=order, masks=masks, memory=memory, head=head))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_cell() -> None:
    for cell in cells():
        trains_or_is_refused(cell)


@pytest.mark.slow
def test_the_table_is_current() -> None:
    assert TABLE.read_text(encoding="utf-8") == table(), "run ./dev python tests/grid/cells.py"


@pytest.mark.parametrize("seam", ["order", "masks"])
def test_the_grid_names_every_part_of_ours(seam: str) -> None:
    ours = {name for name in unnamed(seam) if name not in ("zigzag", "mask_slots")}
    assert not ours, f"add to tests/grid/cells.py: {ours}"


@pytest.mark.parametrize(
    ("head", "data", "remedy"),
    [
        ("next_sentence", {}, "data.layout to 'pairs'"),
        ("next_sentence", {"layout": "pairs", "negatives": "swapped"}, "data.negatives to 'random'"),
        ("sentence_order", {}, "data.layout to 'pairs' and data.negatives to 'swapped'"),
        ("sentence_order", {"layout": "pairs"}, "data.negatives to 'swapped'"),
        ("sentence_order", {"layout": "plain", "negatives": "swapped"}, "data.layout to 'pairs'"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*data.negatives has no effect")
def test_a_head_of_pairs_is_refused_without_its_pairs(head: str, data: dict[str, str], remedy: str) -> None:
    tree = Cell(order="subset", masks="in_place", head=f"cross_entropy and {head}").tree()
    load(tree)
    tree["data"] = {"length": LENGTH, **data}
    with pytest.raises(RecipeError, match=rf"auxiliary\.\w+\.type: '{head}' .* labelled '{head}': set {remedy}$"):
        load(tree)


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        ({"loss": {"type": "replaced_tokens"}}, "objective.loss: it detects what a generator wrote"),
        ({"auxiliary": {"more": {"type": "replaced_tokens"}}}, "objective.auxiliary.more: it comes with"),
        (
            {"generator": {}, "auxiliary": {"replaced": {"type": "next_sentence"}}},
            "objective.auxiliary.replaced: it comes with",
        ),
        ({"generator": {"n_head": 3}}, "objective.generator.n_head: 3 heads do not divide model.d_model, which is 16"),
        ({"generator": {"n_layer": 0}}, "objective.generator.n_layer: n_layer is 0; it must be 1 or more"),
        ({"generator": {"weight": 0}}, "objective.generator.weight: weight is 0"),
        ({"generator": {"layers": 1}}, "objective.generator.layers: unknown key 'layers'"),
        ({"generator": {}, "loss": {"type": "next_sentence"}}, "'next_sentence' gives no logits to sample from"),
    ],
)
def test_a_generator_that_cannot_work_is_refused(objective: dict[str, Any], message: str) -> None:
    tree = Cell(order="subset", masks="in_place", memory="none").tree()
    tree["data"]["layout"] = "pairs"
    tree["objective"] |= objective
    with pytest.raises(RecipeError) as caught:
        load(tree)
    assert message in str(caught.value)


class Unhidden(InPlace):
    """Masks that hide nothing and say they did."""

    def build(self, batch: TokenBatch, plan: Plan, **context: Any) -> Streams:
        streams = super().build(batch, plan, **context)
        readout = replace(streams.readouts["targets"], revealed=None)
        return replace(streams, content=replace(streams.content, ids=batch.ids), readouts={"targets": readout})


class Deaf(Objective):
    """An objective that trains no backbone."""

    def states(self, streams: Streams, memory: MemoryState | None = None) -> BackboneOutput:
        output = super().states(streams, memory)
        assert output.content is not None
        return replace(output, content=output.content.detach())


@pytest.mark.parametrize(
    ("target", "changed", "fault"),
    [("masks", Unhidden, "is reached by its own token"), (None, Deaf, "no gradient ever reaches")],
)
def test_a_faulty_cell_is_found(target: str | None, changed: type, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell(order="subset", masks="in_place", memory="none")
    recipe = load(cell.tree())
    if target is None:
        monkeypatch.setattr("anyorder.train.assemble.Objective", changed)
    else:
        parts = recipe.sections["objective"]
        parts[target] = replace(parts[target], target=changed)
    with pytest.raises(AssertionError, match=fault):
        train(cell, recipe)
