"""Sampling orders and building masks, against transformers' collator for permutation language modelling."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from anyorder.core import Draws, OrderSampler, Plan, Streams, TokenBatch, Vocab, find
from anyorder.core.testing import AuditedSegment, find_leaks
from anyorder.data.progress import Progress

from .gate import DisagreementError
from .harness import SILENT, interleave, ratio

__all__ = ["bench_sampling"]


BATCHES = 10
"""Drawn in a row by each subject: one takes about as long as the processor needs to find its caches again."""


def _repeat(run: Callable[[], object]) -> None:
    for _ in range(BATCHES):
        run()


class _Pieces:
    """What the collator asks of a tokenizer, without text."""

    mask_token = "<mask>"
    mask_token_id = 6
    pad_token = "<pad>"
    pad_token_id = 5
    pad_token_type_id = 3
    padding_side = "left"
    _pad_token = pad_token

    def get_special_tokens_mask(self, ids: list[int], already_has_special_tokens: bool = False) -> list[int]:
        return [int(token < 9) for token in ids]


def bench_sampling(
    *,
    rows: int = 8,
    length: int = 512,
    rounds: int = 20,
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Seconds a sequence to choose targets and an order and to build all that the model needs of them.

    Args:
        rows, length: of a batch.
        rounds: counted rounds, each running every subject once.
    """
    from transformers import DataCollatorForPermutationLanguageModeling

    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(9, 32000, (rows, length), generator=generator)
    word = (torch.rand(rows, length, generator=generator) < 0.8).long().cumsum(1)
    half = (torch.arange(length) >= length // 2).long().expand(rows, -1)
    batch = TokenBatch.of(ids, word=word, block=half)
    vocab = Vocab(size=32000)
    masks = find("masks", "two_stream")()
    orders = {
        "n-gram spans": find("order", "permutation")(targets=find("targets", "ngram_spans")(k=6)),
        "last sixth": find("order", "permutation")(targets=find("targets", "last_fraction")(k=6)),
    }
    tokenizer: Any = _Pieces()
    collator = DataCollatorForPermutationLanguageModeling(tokenizer=tokenizer)
    step = 0

    def sample(name: str) -> tuple[Plan, Streams]:
        nonlocal step
        step += 1
        order: OrderSampler = orders[name]
        plan = order.sample(batch, generator=Draws(0, step, rows=rows, purpose="order")).within_blocks(batch)
        streams = masks.build(
            batch,
            plan,
            vocab=vocab,
            num_targets=order.num_targets(length),
            generator=Draws(0, step, rows=rows, purpose="masks"),
        )
        return plan, streams

    for name in orders:
        if leaks := find_leaks([AuditedSegment.of(batch, *sample(name))]):
            raise DisagreementError(f"no report: the order {name!r} lets a target see itself: {leaks[0]}")
    once: dict[str, Callable[[], object]] = {f"ours, {name}": partial(sample, name) for name in orders}
    once["transformers' collator"] = lambda: collator.torch_mask_tokens(ids.clone())
    subjects = {name: partial(_repeat, run) for name, run in once.items()}
    timings = interleave(subjects, rounds=rounds, warmup=3, what="sampling", progress=progress)
    theirs = timings["transformers' collator"]
    return {
        "bench": "sampling",
        "settings": {"rows": rows, "length": length, "batches": BATCHES},
        "timings": {name: timing.summary() for name, timing in timings.items()},
        "milliseconds_a_sequence": {name: 1e3 * timing.median / (rows * BATCHES) for name, timing in timings.items()},
        "ratios": {
            f"collator / {name}": ratio(theirs, timing) for name, timing in timings.items() if timing is not theirs
        },
    }
