"""Every order under every mask builder, memory and head: what the recipe says, and whether it trains.

./dev python tests/grid/cells.py        writes the table of the documentation, docs/grid.md
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from anyorder.core import IncompatiblePartsError, RecipeError, TokenBatch, Vocab, available
from anyorder.core.testing import AuditedSegment, find_leaks, overlapping_batches
from anyorder.data import PAIR_LABELS
from anyorder.train.assemble import assemble
from anyorder.train.objective import Objective
from anyorder.train.recipe import Recipe, load_recipe
from anyorder.train.share import blind_predictions

VOCAB = Vocab(size=40)
LENGTH, REUSE, ROWS = 16, 8, 4
TABLE = Path(__file__).parents[2] / "docs" / "grid.md"

SOME = {"type": "last_fraction", "k": 3}
EVERYTHING = {"type": "permutation", "targets": "all_targets"}
ORDERS: dict[str, Any] = {
    "left_to_right": {"type": "left_to_right"},
    "left_to_right, some targets": {"type": "left_to_right", "targets": SOME},
    "right_to_left": {"type": "right_to_left"},
    "prefix": {"type": "prefix"},
    "permutation": {"type": "permutation"},
    "permutation, ordered context": {"type": "permutation", "context": "ordered"},
    "permutation, perm_size": {"type": "permutation", "perm_size": 4},
    "permutation, all targets": EVERYTHING,
    "span_blocks": {"type": "span_blocks", "targets": {"type": "ngram_spans", "k": 3}},
    "subset": {"type": "subset", "rate": 0.3},
    "subset, known together": {"type": "subset", "rate": 0.3, "context": "together"},
    "noise_level": {"type": "noise_level"},
    "noise_level, blocks": {"type": "noise_level", "block_size": 4},
    "any_order_cut": {"type": "any_order_cut"},
    "mixture, any orders": {"type": "mixture", "parts": [EVERYTHING, "left_to_right"], "probabilities": [0.9, 0.1]},
    "mixture, one shot": {"type": "mixture", "parts": ["subset", "noise_level"], "probabilities": [1, 1]},
}
MASKS: dict[str, Any] = {
    "two_stream": {"type": "two_stream"},
    "shift": {"type": "shift"},
    "in_place": {"type": "in_place"},
    "in_place, ordered": {"type": "in_place", "visibility": "ordered"},
    "mpnet": {"type": "mpnet"},
    "block_copy": {"type": "block_copy"},
}
MEMORIES: dict[str, Any] = {"segment": {"type": "segment", "mem_len": 12, "reuse_len": REUSE}, "none": {"type": "none"}}
LOSS = {"loss": {"type": "cross_entropy", "label_smoothing": 0.1, "z_loss": 1e-4}}
HEADS: dict[str, Any] = {
    "cross_entropy": LOSS,
    "cross_entropy and next_sentence": {**LOSS, "auxiliary": {"next": {"type": "next_sentence", "weight": 0.5}}},
    "next_sentence alone": {"loss": {"type": "next_sentence"}},
    "cross_entropy and sentence_order": {**LOSS, "auxiliary": {"order": {"type": "sentence_order", "weight": 0.5}}},
    "cross_entropy and replaced_tokens": {**LOSS, "generator": {"n_layer": 1}},
    "adaptive_softmax": {"loss": {"type": "adaptive_softmax", "cutoffs": [12, 24]}},
    "sampled_softmax": {"loss": {"type": "sampled_softmax", "candidates": 12}},
}
PARTS = {"order": ORDERS, "masks": MASKS}


@dataclass(frozen=True, kw_only=True)
class Cell:
    order: str
    masks: str
    memory: str = "segment"
    head: str = "cross_entropy"

    def __str__(self) -> str:
        return f"{self.order} | {self.masks} | {self.memory} | {self.head}"

    def tree(self) -> dict[str, Any]:
        """The recipe."""
        data: dict[str, Any] = {"length": LENGTH}
        if "sentence" in self.head:
            data |= {"layout": "pairs", "negatives": "swapped" if "sentence_order" in self.head else "random"}
        return {
            "name": "cell",
            "data": data,
            "model": {"n_layer": 2, "d_model": 16, "n_head": 2, "d_inner": 16, "dropout": 0.0, "init_std": 0.3},
            "objective": {"order": ORDERS[self.order], "masks": MASKS[self.masks], **HEADS[self.head]},
            "memory": MEMORIES[self.memory],
            "train": {"steps": 20, "batch_size": ROWS},
            "tracking": "none",
        }


def cells() -> Iterator[Cell]:
    for order in ORDERS:
        for masks in MASKS:
            for memory in MEMORIES:
                for head in HEADS:
                    yield Cell(order=order, masks=masks, memory=memory, head=head)


def unnamed(seam: str) -> set[str]:
    """Parts that are installed and that no row or column of the grid names."""
    return set(available(seam)) - {part["type"] for part in PARTS[seam].values()}


@cache
def read(cell: Cell) -> Recipe | str:
    """The recipe of a cell, or the reason for which it is refused."""
    try:
        return load(cell.tree())
    except IncompatiblePartsError as error:
        return error.problem
    except RecipeError as error:
        raise AssertionError(f"{cell} is refused for another reason than its parts: {error}") from error


def load(tree: dict[str, Any]) -> Recipe:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "cell.yaml"
        path.write_text(json.dumps(tree), encoding="utf-8")
        return load_recipe(path)


def train(cell: Cell, recipe: Recipe) -> None:
    """Two steps with memory between them, an audit of every segment, and gradients: or an ``AssertionError``."""
    torch.manual_seed(0)
    objective = assemble(recipe, vocab=VOCAB).train()
    optimizer = torch.optim.SGD(objective.parameters(), lr=1e-2)
    before = {name: parameter.detach().clone() for name, parameter in objective.named_parameters()}
    memory = objective.empty_memory(ROWS)
    segments, blind, moved = [], 0, set()
    for step, batch in enumerate(text()):
        plan = objective.plan(batch, seed=0, step=step)
        streams = objective.prepare(batch, seed=0, step=step, plan=plan)
        segments.append(AuditedSegment.of(batch, plan, streams, start=step * REUSE))
        if step >= 2:
            continue
        state = None if memory is None else memory.drop(batch.fresh)
        blind += blind_predictions(streams, state, heads=["loss"])
        output = objective(streams, state)
        memory = output.memory
        loss = objective.total(output.losses, objective.weight_sums(streams))
        assert bool(loss.isfinite()), f"{cell}: the loss is {loss}"
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        for name, parameter in objective.named_parameters():
            gradient = parameter.grad
            assert gradient is None or bool(gradient.isfinite().all()), f"{cell}: the gradient of {name}"
            if gradient is not None and bool(gradient.any()):
                moved.add(name)
        optimizer.step()
    still = {name for name in before if name not in moved} - idle(objective)
    assert not still, f"{cell}: no gradient ever reaches {sorted(still)}"
    leaks = find_leaks(segments, memory=objective.memory)
    assert not leaks, f"{cell}: {leaks[0]}"


def idle(objective: Objective) -> set[str]:
    """Parameters that should have no gradient: the query vector where nothing is read from a query stream."""
    streams = objective.prepare(text()[0], seed=0, step=0)
    reads_query = any(streams.readouts[name].stream == "query" for name in objective.heads)
    names = {name for name, _ in objective.named_parameters()}
    return set() if reads_query else {name for name in names if name.endswith("query_embedding")}


@lru_cache
def text() -> tuple[TokenBatch, ...]:
    """Overlapping segments, each ending with a classification token, and labels of pairs."""
    batches = []
    for batch in overlapping_batches(LENGTH, reuse_len=REUSE, vocab=VOCAB, rows=ROWS, segments=4):
        ids, fixed = batch.ids.clone(), batch.fixed.clone()
        ids[:, -1], fixed[:, -1] = VOCAB.cls, True
        batches.append(
            replace(batch, ids=ids, fixed=fixed, labels=dict.fromkeys(PAIR_LABELS.values(), torch.arange(ROWS) % 2))
        )
    return tuple(batches)


def table() -> str:
    """The page of the documentation: what is accepted and what is refused, as recipes are read."""
    refusals = {cell: found for cell in cells() if isinstance(found := read(cell), str)}
    usual = {(c.order, c.masks): r for c, r in refusals.items() if c.memory == "segment" and c.head == "cross_entropy"}
    reasons = list(dict.fromkeys(usual.values()))
    lines = [
        "# The grid",
        "",
        "Every order under every mask builder. This page is written by `tests/grid/cells.py` from the recipes' own",
        "checks, and a test keeps it current. Each accepted cell takes two steps in the tests, with and without memory",
        "and with each head: its loss and its gradients are finite, every weight that should learn does, and no target",
        "reaches its own prediction. A refused cell is refused while the recipe is read, with the reason below.",
        "",
        "| order | " + " | ".join(MASKS) + " |",
        "|---|" + "---|" * len(MASKS),
    ]
    for order in ORDERS:
        marks = [
            f"refused ({reasons.index(usual[order, masks]) + 1})" if (order, masks) in usual else "trains"
            for masks in MASKS
        ]
        lines.append(f"| {order} | " + " | ".join(marks) + " |")
    lines += ["", *(f"{number}. {reason}" for number, reason in enumerate(reasons, start=1))]
    lines += ["", "## Heads and memory", "", "What else is refused, where the cell above trains:", ""]
    lines += ["| head | memory | masks | reason |", "|---|---|---|---|"]
    further: dict[tuple[str, str, str, str], int] = {}
    for cell, reason in refusals.items():
        if (cell.order, cell.masks) not in usual:
            key = (cell.head, cell.memory, cell.masks, reason)
            further[key] = further.get(key, 0) + 1
    lines += [f"| {head} | {memory} | {masks} | {reason} |" for head, memory, masks, reason in sorted(further)]
    count = len(list(cells()))
    lines += ["", f"Of {count} cells {count - len(refusals)} train and {len(refusals)} are refused.", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    TABLE.write_text(table(), encoding="utf-8")
    print(f"wrote {TABLE}")
