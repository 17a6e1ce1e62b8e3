"""What each installed attention backend can serve on a machine, and why not the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from anyorder.core import AttentionRequest

from .backend import AutoBackend, reasons

__all__ = ["USES", "Capability", "capabilities", "uses"]

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

USES = (
    *(f"train {dtype}" for dtype in _DTYPES),
    *(f"evaluate {dtype}" for dtype in _DTYPES),
    "dropout",
    "compiled",
)
"""What is asked of every backend; ``dropout`` of attention weights and ``compiled`` are training in fp32."""


@dataclass(frozen=True, kw_only=True)
class Capability:
    """One backend: of each of ``USES`` why it refuses, or None where it serves."""

    name: str
    refusals: Mapping[str, str | None]

    def reasons(self) -> dict[str, list[str]]:
        """Each reason, and the uses that it is given for; no uses where it is given for all."""
        found: dict[str, list[str]] = {}
        for use, reason in self.refusals.items():
            if reason is not None:
                found.setdefault(" ".join(reason.split()), []).append(use)
        return {reason: [] if len(refused) == len(self.refusals) else refused for reason, refused in found.items()}


def uses(device: torch.device) -> dict[str, AttentionRequest]:
    """The request behind each of ``USES``: a model of ordinary size with position and segment biases."""
    train = AttentionRequest(
        device=device,
        dtype=torch.float32,
        training=True,
        bias=True,
        bias_grad=True,
        dropout=0.0,
        head_dim=64,
    )
    evaluate = replace(train, training=False, bias_grad=False)
    requests = [
        *(replace(train, dtype=dtype) for dtype in _DTYPES.values()),
        *(replace(evaluate, dtype=dtype) for dtype in _DTYPES.values()),
        replace(train, dropout=0.1),
        replace(train, compiled=True),
    ]
    return dict(zip(USES, requests, strict=True))


def capabilities(device: torch.device) -> list[Capability]:
    """Ask every installed backend, in the order in which ``auto`` prefers them and the others after those."""
    answers = {use: reasons(request) for use, request in uses(device).items()}
    prefer = AutoBackend().prefer
    names = sorted(answers[USES[0]], key=lambda name: (prefer.index(name) if name in prefer else len(prefer), name))
    return [Capability(name=name, refusals={use: answer[name] for use, answer in answers.items()}) for name in names]
