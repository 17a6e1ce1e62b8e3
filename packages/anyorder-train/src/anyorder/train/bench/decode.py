"""A token of text written left to right: keys and values kept, against projecting memory anew and against no cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn

from anyorder.data.progress import Progress

from ..decode import Decoder
from ..objective import Objective
from .gate import require_agreement
from .harness import SILENT, interleave, ratio
from .workload import Shape, build_objective, build_peer

__all__ = ["bench_decode", "decode_agreement"]

AGREEMENT = 1e-4
"""Most that log-probabilities may differ, in nats."""

Step = Callable[[Tensor], Tensor]
"""One more token of every row in, log-probabilities of the next out."""


def bench_decode(
    *,
    rows: int = 1,
    layers: int = 12,
    window: int = 512,
    rounds: int = 20,
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Seconds a token of XLNet-Base's shape behind a full window, in float32.

    Args:
        rows, layers: texts at once, and layers of the backbone.
        window: tokens remembered.
        rounds: counted tokens, each written by every subject.

    Raises:
        DisagreementError: the subjects disagree on the probabilities of the next tokens.
    """
    shape = Shape(
        rows=rows, layers=layers, length=window, memory=window, reuse=window // 2, targets=window // 2, dropout=0.0
    )
    difference = require_agreement("log-probabilities of the next token", decode_agreement(shape), limit=AGREEMENT)
    objective = build_objective(shape, attention="sdpa").eval()
    steps = _steps(shape, objective, build_peer(shape, like=objective).model)
    ids = _ids(shape)

    def write(step: Step) -> Callable[[], object]:
        return lambda: step(next(ids))

    subjects = {name: write(step) for name, step in steps.items()}
    timings = interleave(subjects, rounds=rounds, warmup=2, what="tokens", progress=progress)
    return {
        "bench": "decode",
        "settings": asdict(shape) | {"window": window},
        "timings": {name: timing.summary() for name, timing in timings.items()},
        "tokens_a_second": {name: rows / timing.median for name, timing in timings.items()},
        "ratios": {
            f"{name} / ours": ratio(timing, timings["ours"]) for name, timing in timings.items() if name != "ours"
        },
        "agreement": difference,
    }


def decode_agreement(shape: Shape, *, tokens: int = 3) -> float:
    """Largest difference of log-probabilities among the subjects, over a small model of the same kind: the gate."""
    small = replace(shape, layers=2, width=64, heads=4, inner=128, vocab=200, length=16, memory=16, targets=8)
    objective = build_objective(small, attention="naive").eval()
    steps = _steps(small, objective, build_peer(small, like=objective).model)
    worst = 0.0
    for number, token in zip(range(tokens), _ids(small), strict=False):
        ours, peer, whole = (step(token) for step in steps.values())
        worst = max(worst, float((peer - ours).abs().max()))
        if number == 0:  # later the window has moved on, and what computes everything still sees the oldest tokens
            worst = max(worst, float((whole - ours).abs().max()))
    return worst


def _ids(shape: Shape) -> Iterator[Tensor]:
    for number in count(1):
        generator = torch.Generator().manual_seed(number)
        yield torch.randint(9, shape.vocab, (shape.rows, 1), generator=generator)


def _steps(shape: Shape, objective: Objective, peer: nn.Module) -> dict[str, Step]:
    """The subjects, each with a window full of the same tokens behind it."""
    prompt = torch.randint(9, shape.vocab, (shape.rows, shape.length), generator=torch.Generator().manual_seed(0))
    cached, whole = (Decoder(objective, window=shape.memory, cached=cached) for cached in (True, False))
    cached.read(prompt)
    whole.read(prompt)
    return {"ours": cached.read, "transformers": _peer_step(peer, prompt), "ours, no cache": whole.read}


def _peer_step(peer: Any, prompt: Tensor) -> Step:
    """``XLNetLMHeadModel`` with ``mems``: it keeps hidden states, and projects all of them for every token."""
    peer.eval()
    mems: list[Tensor] | None = None

    @torch.no_grad()
    def step(ids: Tensor) -> Tensor:
        nonlocal mems
        rows, tokens = ids.shape
        hidden = torch.zeros(rows, tokens + 1, tokens + 1)
        hidden[:, :, -1] = 1.0  # a stand-in for the token to come, which nobody sees
        place = torch.zeros(rows, 1, tokens + 1)
        place[:, 0, -1] = 1.0
        peer.transformer.reuse_len = tokens
        out = peer(
            input_ids=torch.cat([ids, ids[:, -1:]], dim=1),
            perm_mask=hidden,
            target_mapping=place,
            mems=mems,
            use_mems=True,
        )
        mems = out.mems
        scores: Tensor = out.logits[:, 0].log_softmax(dim=-1)
        return scores

    step(prompt)
    return step
