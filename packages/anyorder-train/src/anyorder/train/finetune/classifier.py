"""A pretrained backbone with a head for classes."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from anyorder.core import CheckpointError, Slots, Streams, TokenBatch
from anyorder.data import Tokenizer
from anyorder.losses import RowOutput, SequenceClassification, SequenceSummary, find_token
from anyorder.losses.summary import Pooling
from anyorder.models import TransformerXL

from ..assemble import assemble
from ..checkpoint import latest, load_model
from ..loop import CHECKPOINTS
from ..recipe import load_recipe
from ..rows import open_corpus
from ..run import RECIPE

__all__ = ["Classifier", "Pretrained", "encoder_streams", "load_pretrained"]


@dataclass(frozen=True, kw_only=True)
class Pretrained:
    """A backbone, the tokenizer it was trained with, and the number of its attention heads."""

    backbone: TransformerXL
    tokenizer: Tokenizer
    n_head: int


def load_pretrained(folder: Path, *, dropout: float, device: torch.device | str = "cpu") -> Pretrained:
    """The backbone of a run's newest whole checkpoint.

    Args:
        folder: of the run.
        dropout: of the backbone while it is fine-tuned, attention weights included.
        device: where it will train, by which the attention backend is chosen.

    Raises:
        CheckpointError: the folder is not a run, or no checkpoint in it is whole.
    """
    if not (folder / RECIPE).is_file():
        raise CheckpointError(f"{folder} is not a run's folder: it has no {RECIPE}")
    found = latest(folder / CHECKPOINTS)
    if found is None:
        raise CheckpointError(f"{folder} has no checkpoint yet")
    with warnings.catch_warnings():  # what the recipe warns of was said when it was trained
        warnings.simplefilter("ignore")
        recipe = load_recipe(folder / RECIPE)
    data, model = recipe.sections["data"], recipe.sections["model"]
    corpus = open_corpus(data.get("corpus"), vocab_size=data.get("vocab_size"))
    wetter = replace(model, arguments={**model.arguments, "dropout": dropout, "attention_dropout": dropout})
    recipe = replace(recipe, sections={**recipe.sections, "model": wetter})
    objective = assemble(recipe, vocab=corpus.vocab, device=device)
    load_model(objective, found.model(), source=found.folder)
    backbone = objective.backbone
    assert isinstance(backbone, TransformerXL)
    return Pretrained(backbone=backbone, tokenizer=corpus.tokenizer, n_head=model.get("n_head"))


def encoder_streams(batch: TokenBatch) -> Streams:
    """One content stream in which every token of a row sees every other: all are known at time 0."""
    return Streams(content=Slots.of_tokens(batch, torch.zeros_like(batch.ids)))


class Classifier(nn.Module):
    """Backbone, summary and classes. Memory is not used, as in the official fine-tuning.

    Args:
        backbone: pretrained.
        cls_id: the token that is read where ``pooling`` is ``token``.
        classes: how many there are.
        n_head: of the pooling by ``attention``.
        pooling, project, dropout: of the summary (``SequenceSummary``).
    """

    def __init__(
        self,
        backbone: TransformerXL,
        *,
        cls_id: int,
        classes: int,
        n_head: int,
        pooling: Pooling = "token",
        project: bool = True,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.backbone, self.cls_id = backbone, cls_id
        width = backbone.d_model
        self.summary = SequenceSummary(d_model=width, pooling=pooling, project=project, dropout=dropout, n_head=n_head)
        self.head = SequenceClassification(d_model=width, classes=classes)

    def forward(
        self,
        batch: TokenBatch,
        *,
        labels: Int[Tensor, " B"] | None = None,
        weight: Float[Tensor, " B"] | None = None,
    ) -> RowOutput:
        """Scores ``[B, C]`` of each row's classes; with labels also the loss."""
        hidden = self.backbone(encoder_streams(batch)).content
        index = find_token(batch.ids, self.cls_id) if self.summary.pooling == "token" else None
        summary = self.summary(hidden, index=index, real=~batch.padding)
        output: RowOutput = self.head(summary, labels=labels, weight=weight)
        return output
