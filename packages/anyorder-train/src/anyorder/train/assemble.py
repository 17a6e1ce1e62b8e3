"""From a recipe to its data and its objective."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from anyorder.core import AttentionRequest, LossHead, Vocab, find
from anyorder.data import Manifest

from .backend import require
from .objective import Objective
from .recipe import Call, Recipe, stride_of
from .replaced import ReplacedTokenDetection
from .rows import TextRows

__all__ = ["Sizes", "assemble", "count_parameters", "open_text", "parameters_by_part", "sizes", "vocab_size"]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What follows from a recipe's numbers, without building anything.

    Attributes:
        rows, length, stride: of a batch; ``stride`` tokens of each segment are new.
        targets: the most predictions a row.
        layers: of the backbone.
        mem_len: tokens that memory keeps a layer.
    """

    rows: int
    length: int
    stride: int
    targets: int
    layers: int
    mem_len: int

    @property
    def tokens_per_step(self) -> int:
        """New tokens of the corpus that a step reads."""
        return self.rows * self.stride

    @property
    def span(self) -> int:
        """How far back a token can count through memory: each layer reaches ``mem_len`` further."""
        return self.layers * self.mem_len


def sizes(recipe: Recipe) -> Sizes:
    data, memory = recipe.sections["data"], recipe.sections["memory"]
    order = recipe.sections["objective"]["order"].build()
    return Sizes(
        rows=recipe.sections["train"].get("batch_size"),
        length=data.get("length"),
        stride=stride_of(data, memory),
        targets=order.num_targets(data.get("length")),
        layers=recipe.sections["model"].get("n_layer"),
        mem_len=memory.get("mem_len") or 0,
    )


def open_text(recipe: Recipe) -> TextRows:
    """Open the recipe's corpus as rows.

    Raises:
        RecipeError: there is no such corpus, or it has too little text.
    """
    data, memory = recipe.sections["data"], recipe.sections["memory"]
    call = replace(data, arguments={**data.arguments, "stride": stride_of(data, memory)})
    rows: TextRows = call.build(batch_size=recipe.sections["train"].get("batch_size"), seed=recipe.seed)
    return rows


def vocab_size(recipe: Recipe) -> int:
    """Number of pieces of the recipe's tokenizer, without opening the corpus."""
    data = recipe.sections["data"]
    corpus = data.get("corpus")
    size: int = data.get("vocab_size") if corpus is None else Manifest.read(corpus).tokenizer["vocab_size"]
    return size


def assemble(
    recipe: Recipe,
    *,
    vocab: Vocab,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    training: bool = True,
    compiled: bool = False,
    deterministic: bool = False,
) -> Objective:
    """Build every part of a recipe's objective.

    Initial weights are drawn from torch's global generator: seed it first. The backbone comes first, so that its
    weights are the same under every head.

    Args:
        vocab: special ids of the tokenizer.
        device, dtype, training, compiled, deterministic: what the run will compute with, and how, by which the
            attention backend is chosen. The objective itself is built on torch's default device.

    Raises:
        RecipeError: a part refuses its arguments.
        BackendUnsupportedError: no backend can serve the run.
    """
    model: Call = recipe.sections["model"]
    parts = recipe.sections["objective"]
    context = {
        "vocab": vocab,
        "vocab_size": vocab.size,
        "cls_id": vocab.cls,
        "d_model": model.get("d_model"),
        "n_head": model.get("n_head"),
        "n_layer": model.get("n_layer"),
        "d_head": head_dim(model),
    }
    masks = parts["masks"].build(**context)
    request = AttentionRequest(
        device=torch.device(device),
        dtype=dtype,
        training=training,
        bias=bool(model.arguments["biases"]),
        bias_grad=training and bool(model.arguments["biases"]),
        dropout=model.get("attention_dropout") if training else 0.0,
        head_dim=head_dim(model),
        rules=getattr(masks, "rules", frozenset()),
        compiled=compiled,
        deterministic=deterministic,
    )
    backend = require(recipe.sections["attention"].build(), request)
    backbone = model.build(vocab_size=vocab.size, attention=backend)
    heads: dict[str, LossHead] = {"loss": parts["loss"].build(**context)}
    weights = {}
    for name, (call, weight) in parts["auxiliary"].items():
        heads[name], weights[name] = call.build(**context), weight
    common = {
        "order": parts["order"].build(**context),
        "masks": masks,
        "heads": heads,
        "head_weights": weights,
        "backbone": backbone,
        "memory": recipe.sections["memory"].build(**context),
        "vocab": vocab,
    }
    if parts["generator"] is None:
        return Objective(**common)
    sizes, weight = parts["generator"].build()
    detector = find("loss", "replaced_tokens")(d_model=context["d_model"], init_std=model.get("init_std"))
    smaller = replace(model, arguments={**model.arguments, **sizes})
    generator = smaller.build(vocab_size=vocab.size, attention=backend)
    return ReplacedTokenDetection(generator=generator, detector=detector, weight=weight, **common)


def head_dim(model: Call) -> int:
    """Width of one attention head."""
    d_head: int | None = model.get("d_head")
    return d_head or model.get("d_model") // model.get("n_head")


def count_parameters(recipe: Recipe) -> int:
    """How many numbers the objective learns, counted without allocating any."""
    return sum(parameters_by_part(recipe).values())


def parameters_by_part(recipe: Recipe) -> dict[str, int]:
    """The same by part: ``backbone``, ``generator``, ``head 'loss'`` and so on. What is shared counts once."""
    with torch.device("meta"):
        objective = assemble(recipe, vocab=Vocab(size=vocab_size(recipe)))
    found: dict[str, int] = {}
    for name, parameter in objective.named_parameters():
        part, _, rest = name.partition(".")
        part = f"head {rest.partition('.')[0]!r}" if part == "heads" else part
        found[part] = found.get(part, 0) + parameter.numel()
    return found
