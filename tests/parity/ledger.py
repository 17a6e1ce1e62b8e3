"""The largest difference of every recorded quantity, noted by the tests that compare it, and the page made of them."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

_PARTS = {
    "model": "Model: `modeling.transformer_xl` and `lm_loss`",
    "heads": "Heads, and the pretraining graph as one",
    "optimizer": "Optimiser and schedule: 12 steps, recorded in float32",
    "training": "Pretraining: seven steps, recorded in float32",
    "data": "Pretraining data: entries that differ",
}
_HEAD = """# Number for number

Made by `./dev parity-table` from the tests in `tests/parity/`: do not edit. Each cell is the largest absolute
difference between what the official TensorFlow code (zihangdai/xlnet, commit bbaa3a6) computed and what our parts
compute on the same input, in float64 / float32; of naive and sdpa attention, the larger one. A dash: nothing was
recorded.

The official float32 graph differs from the same graph in float64 by up to 2.4e-6 (outputs), 1e-5 (the loss of a
target, which is up to 35) and 2.6e-6 (gradients): no float32 column can be expected to be below that.
"""
_ON_PURPOSE = """
## What differs on purpose

- `tm_fullblocked`: one query may see no key at all. The official softmax, of scores that are all -1e30, is then
  uniform over every key, those that are forbidden and the answer among them included. Ours reads nothing: the
  attention's output is zero. The row of the batch that holds the query is left out of the table, and a test of its
  own says what we give.
- `*_sparse_emb`: the official norm of the gradient counts the rows of a repeated token before they are added up;
  ours is the norm of the gradient. Given the official norm, all else is equal.
- `adamw_racy`: the unpatched official code reads the learning rate after it has counted the step, so that a warm-up
  step has the rate of the next one. Ours does not; run one step ahead, all else is equal.

What our default data pipeline does otherwise than the official one is in [faithful.md](faithful.md), and how
transformers differs from the official code in [transformers.md](transformers.md).
"""

_noted: dict[str, dict[str, dict[str, dict[str, float]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(dict)))


def note(part: str, case: str, quantity: str, precision: str, difference: float) -> None:
    """Keep the largest difference of a quantity (``precision``: ``f64``, ``f32``, or ``exact`` for a count)."""
    kept = _noted[part][case][quantity]
    kept[precision] = max(kept.get(precision, 0.0), float(difference))


def write_page(path: Path) -> None:
    """Write the page of all that was noted.

    Raises:
        ValueError: a part was not tested, so that the page would lack it.
    """
    missing = [part for part in _PARTS if part not in _noted]
    if missing:
        raise ValueError(f"nothing was noted of {', '.join(missing)}; run all of tests/parity")
    path.write_text(_HEAD + "".join(_table(part) for part in _PARTS) + _ON_PURPOSE, encoding="utf-8")


def _table(part: str) -> str:
    cases = _noted[part]
    quantities = list(dict.fromkeys(name for case in cases.values() for name in case))
    lines = [f"\n## {_PARTS[part]}\n", f"| case | {' | '.join(quantities)} |", "|---|" + "---|" * len(quantities)]
    for case in sorted(cases):
        lines.append(f"| {case} | {' | '.join(_cell(cases[case].get(name)) for name in quantities)} |")
    return "\n".join(lines) + "\n"


def _cell(kept: dict[str, float] | None) -> str:
    if not kept:
        return "–"
    if "exact" in kept:
        return f"{kept['exact']:.0f}"
    return " / ".join(f"{kept[name]:.0e}" if name in kept else "–" for name in ("f64", "f32"))
