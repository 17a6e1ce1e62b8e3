"""What a backbone is built from, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from anyorder.core import AttentionBackend, CheckpointError, find

from .transformer_xl import TransformerXL

BIASES = ("transformer_xl", "segment")
"""XLNet's position and segment terms, in the order in which weights are named."""


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """Arguments of ``TransformerXL``, position biases by name."""

    vocab_size: int
    n_layer: int
    d_model: int
    n_head: int
    d_head: int
    d_inner: int
    activation: str = "gelu"
    clamp_len: int | None = None
    untie_biases: bool = True
    dropout: float = 0.1
    attention_dropout: float = 0.1
    init_std: float = 0.02
    norm_eps: float = 1e-12
    absolute_positions: int | None = None
    absolute_segments: int | None = None
    biases: tuple[str, ...] = BIASES

    def build(self, *, attention: AttentionBackend | None = None) -> TransformerXL:
        """A backbone of this architecture with fresh weights; ``attention`` is the sdpa backend by default."""
        sizes = asdict(self)
        biases = [find("positions", name) for name in sizes.pop("biases")]
        return TransformerXL(attention=attention or find("attention", "sdpa")(), biases=biases, **sizes)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"biases": list(self.biases)}

    @classmethod
    def from_json(cls, tree: Mapping[str, Any], *, source: str) -> Architecture:
        """Raise ``CheckpointError`` where a key is unknown or missing."""
        names = {item.name for item in fields(cls)}
        if strange := sorted(set(tree) - names):
            raise CheckpointError(f"{source}: the architecture has unknown keys: {', '.join(strange)}")
        try:
            return cls(**dict(tree) | {"biases": tuple(tree.get("biases", BIASES))})
        except TypeError as error:
            raise CheckpointError(f"{source}: the architecture is not whole: {error}") from None
