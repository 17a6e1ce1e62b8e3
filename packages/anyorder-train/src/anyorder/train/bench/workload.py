"""One pretraining step of XLNet's shape, ours and transformers', on the same inputs and the same weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from anyorder.core import AttentionBackend, MemoryState, Streams, TokenBatch, Visibility, Vocab, find

from ..objective import Objective

__all__ = ["Ours", "Peer", "Shape", "agreement", "build_objective", "build_ours", "build_peer", "inputs"]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Sizes of a step; the defaults are XLNet-Base's."""

    rows: int = 2
    layers: int = 12
    width: int = 768
    heads: int = 12
    inner: int = 3072
    length: int = 512
    reuse: int = 256
    memory: int = 384
    targets: int = 85
    vocab: int = 32000
    dropout: float = 0.1


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What a step reads: streams and memory for ours, which the peer's tensors are made from."""

    streams: Streams
    state: MemoryState
    batch: TokenBatch


@dataclass(frozen=True, kw_only=True)
class Ours:
    objective: Objective
    step: Callable[[], Tensor]
    loss: Callable[[], Tensor]


@dataclass(frozen=True, kw_only=True)
class Peer:
    model: nn.Module
    step: Callable[[], Tensor]
    loss: Callable[[], Tensor]


def backend(name: str) -> AttentionBackend:
    """A backend that takes its own path at every size, so that the gate's small model tests what is timed."""
    made: AttentionBackend = find("attention", name)(**({"smallest": 0} if name == "tiled" else {}))
    return made


def build_objective(shape: Shape, *, attention: str, objective: str = "plm") -> Objective:
    parts: dict[str, tuple[Any, Any]] = {
        "plm": (
            find("order", "permutation")(targets=find("targets", "ngram_spans")(k=6, unit="tokens")),
            find("masks", "two_stream")(),
        ),
        "mlm": (find("order", "subset")(rate=shape.targets / shape.length), find("masks", "in_place")()),
        "clm": (find("order", "left_to_right")(), find("masks", "shift")()),
    }
    from anyorder.models import TransformerXL

    order, masks = parts[objective]
    backbone = TransformerXL(
        vocab_size=shape.vocab,
        n_layer=shape.layers,
        d_model=shape.width,
        n_head=shape.heads,
        d_inner=shape.inner,
        attention=backend(attention),
        biases=(find("positions", "transformer_xl"), find("positions", "segment")),
        dropout=shape.dropout,
        attention_dropout=shape.dropout,
    )
    return Objective(
        order=order,
        masks=masks,
        heads={"loss": find("loss", "cross_entropy")(vocab_size=shape.vocab)},
        backbone=backbone,
        vocab=Vocab(size=shape.vocab),
        memory=find("memory", "segment")(mem_len=shape.memory, reuse_len=shape.reuse),
    )


def inputs(shape: Shape, objective: Objective) -> Inputs:
    """Random text in XLNet's layout, one sampled order, and a memory that is full."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(9, shape.vocab, (shape.rows, shape.length), generator=generator)
    place = torch.arange(shape.length).expand_as(ids)
    batch = TokenBatch.of(ids, segment=(place >= 3 * shape.length // 4).long(), block=(place >= shape.reuse).long())
    streams = objective.prepare(batch, seed=0, step=0, num_targets=shape.targets)
    state = objective.empty_memory(shape.rows)
    assert state is not None
    layers = tuple(torch.randn(layer.shape, generator=generator) for layer in state.layers)
    return Inputs(batch=batch, streams=streams, state=replace(state, layers=layers, doc=torch.zeros_like(state.doc)))


def build_ours(shape: Shape, *, attention: str = "tiled", precision: str = "fp32", objective: str = "plm") -> Ours:
    torch.manual_seed(0)
    model = build_objective(shape, attention=attention, objective=objective)
    given = inputs(shape, model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)

    def loss() -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
            losses = model(given.streams, given.state).losses
        return model.total(losses, model.weight_sums(given.streams))

    return Ours(objective=model, loss=loss, step=_step(model, loss, optimizer))


def build_peer(shape: Shape, *, precision: str = "fp32", like: Objective | None = None) -> Peer:
    """transformers' ``XLNetLMHeadModel``, with the weights of ``like`` where given."""
    from transformers import XLNetConfig, XLNetLMHeadModel

    torch.manual_seed(0)
    config = XLNetConfig(
        vocab_size=shape.vocab,
        d_model=shape.width,
        n_layer=shape.layers,
        n_head=shape.heads,
        d_inner=shape.inner,
        ff_activation="gelu_new",
        dropout=shape.dropout,
        mem_len=shape.memory,
        reuse_len=shape.reuse,
        use_mems_train=True,
    )
    model = XLNetLMHeadModel(config)
    ours = like if like is not None else build_objective(shape, attention="naive")
    if like is not None:
        _copy_weights(like, model)
    given = inputs(shape, ours)
    content, query = given.streams.content, given.streams.query
    assert query is not None
    readout = given.streams.readouts["loss"]
    hidden = ~Visibility.of(content, content).dense()
    # Their content stream opens the diagonal by itself, and their query stream must not see it.
    hidden |= torch.eye(shape.length, dtype=torch.bool) & _targets(given.streams)[:, :, None]
    mapping = nn.functional.one_hot(query.position, shape.length).float() * (readout.weight > 0)[..., None]
    arguments = {
        "input_ids": content.ids,
        "perm_mask": hidden.float(),
        "target_mapping": mapping,
        "token_type_ids": content.segment,
        "mems": [layer.transpose(0, 1).contiguous() for layer in given.state.layers],
        "use_mems": True,
        "labels": readout.labels.masked_fill(readout.weight == 0, -100),
    }
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)

    def loss() -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
            out: Tensor = model(**arguments).loss
        return out

    return Peer(model=model, loss=loss, step=_step(model, loss, optimizer))


def _step(model: nn.Module, loss: Callable[[], Tensor], optimizer: torch.optim.Optimizer) -> Callable[[], Tensor]:
    def step() -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        value = loss()
        value.backward()
        optimizer.step()
        return value.detach()

    model.train()
    return step


def _targets(streams: Streams) -> Tensor:
    assert streams.query is not None
    target = torch.zeros_like(streams.content.ids, dtype=torch.bool)
    return target.scatter(1, streams.query.position, streams.readouts["loss"].weight > 0)


def _copy_weights(objective: Objective, model: nn.Module) -> None:
    """Our weights under transformers' names (``[D, H, d]`` projections)."""
    backbone: Any = objective.backbone
    theirs: Any = model
    head: Any = objective.heads["loss"]
    with torch.no_grad():
        theirs.transformer.word_embedding.weight.copy_(backbone.embedding.weight)
        theirs.transformer.mask_emb.copy_(backbone.query_embedding.view(1, 1, -1))
        theirs.lm_loss.bias.copy_(head.bias)
        for mine, layer in zip(backbone.layers, theirs.transformer.layer, strict=True):
            attention, relative = mine.attention, layer.rel_attn
            position, segment = attention.biases
            for name, linear in (
                ("q", attention.query),
                ("k", attention.key),
                ("v", attention.value),
                ("r", position.project),
            ):
                kernel = getattr(relative, name)
                kernel.copy_(linear.weight.T.reshape(kernel.shape))
            relative.o.copy_(attention.out.weight.reshape(relative.o.shape))
            relative.r_w_bias.copy_(attention.r_w_bias)
            relative.r_r_bias.copy_(position.r_r_bias)
            relative.r_s_bias.copy_(segment.r_s_bias)
            relative.seg_embed.copy_(segment.seg_embed)
            relative.layer_norm.load_state_dict(mine.norm.state_dict())
            layer.ff.layer_1.load_state_dict(mine.feed_forward.expand.state_dict())
            layer.ff.layer_2.load_state_dict(mine.feed_forward.contract.state_dict())
            layer.ff.layer_norm.load_state_dict(mine.feed_forward.norm.state_dict())


def agreement(shape: Shape, *, attention: str = "tiled") -> float:
    """Largest relative difference of loss and embedding gradient between ours and the peer: the gate of a report.

    The same weights and inputs without dropout, in float32, over a small model of the same kind.
    """
    small = replace(shape, layers=2, width=64, heads=4, inner=128, vocab=200, dropout=0.0, rows=2)
    ours = build_ours(small, attention=attention)
    peer = build_peer(small, like=ours.objective)
    ours.objective.eval()
    peer.model.eval()
    mine, theirs = ours.loss(), peer.loss()
    mine.backward()
    theirs.backward()
    embedding: Any = peer.model.get_parameter("transformer.word_embedding.weight").grad
    gradient: Any = ours.objective.embedding.grad
    difference = (gradient - embedding).abs().max() / embedding.abs().max()
    return float(max((mine - theirs).abs() / theirs.abs(), difference))
