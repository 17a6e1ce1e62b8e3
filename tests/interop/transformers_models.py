"""Models of transformers with weights that matter, saved as a user has them."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from anyorder.core import Streams, Vocab
from anyorder.losses import CrossEntropy
from anyorder.models import Pretrained

SPIECE = Path(__file__).parents[1] / "data" / "golden" / "spm" / "spiece.model"
VOCAB = Vocab(size=500)
SMALL = {"vocab_size": 500, "d_model": 32, "n_layer": 3, "n_head": 4, "d_inner": 48}
ATOL = 2e-5  # logits of some tens, in float32


def random_weights(model: torch.nn.Module, *, std: float = 0.2, seed: int = 0) -> torch.nn.Module:
    """Larger than initial weights are, so that every term of the score matters."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            parameter.normal_(std=std, generator=generator)
            if "norm" in name.lower() and name.endswith("weight"):
                parameter.add_(1.0)
    return model.eval()


def saved(model: torch.nn.Module, folder: Path, **options: object) -> Path:
    model.save_pretrained(folder, **options)
    (folder / "spiece.model").write_bytes(SPIECE.read_bytes())
    return folder


def head_of(model: Pretrained) -> CrossEntropy:
    head = CrossEntropy(vocab_size=model.architecture.vocab_size)
    head.load_state_dict(model.part("heads.loss."))
    return head.eval()


def logits_of(model: Pretrained, streams: Streams, stream: str, memory=None, backend=None) -> Tensor:  # type: ignore[no-untyped-def]
    backbone = model.backbone(attention=backend)
    states = backbone(streams, memory).stream(stream)
    return head_of(model).logits(states, embedding=backbone.embedding.weight)
