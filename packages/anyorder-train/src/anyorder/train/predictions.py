"""What a model's main head says of every piece of the vocabulary at the targets of a plan."""

from __future__ import annotations

from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from anyorder.core import BackboneOutput, Draws, Plan, Streams, TokenBatch

from .objective import Objective

__all__ = ["log_probabilities", "streams_to_score"]


def streams_to_score(objective: Objective, batch: TokenBatch, plan: Plan, *, num_targets: int) -> Streams:
    """Streams under the masks that hide every target, on the model's device.

    The one readout is the main head's: heads that ride along may want labels, which a question has not.
    """
    draws = Draws(0, rows=batch.rows, purpose="masks")
    streams = objective.masks.scoring().build(
        batch, plan, vocab=objective.vocab, num_targets=num_targets, generator=draws
    )
    readout = objective.heads["loss"].readout(batch, streams)  # type: ignore[operator]
    return replace(streams, readouts={"loss": readout}).to(objective.embedding.device)


def log_probabilities(objective: Objective, streams: Streams, output: BackboneOutput) -> Float[Tensor, "B P V"]:
    """Log-probabilities in nats, float32, on the CPU; the main head must have ``logits``."""
    readout = streams.readouts["loss"]
    hidden = readout.gather(output.stream(readout.stream))
    logits: Tensor = objective.heads["loss"].logits(hidden, embedding=objective.embedding)  # type: ignore[operator]
    return logits.float().log_softmax(dim=-1).cpu()
