"""The two-stream Transformer-XL: XLNet's backbone, and every other objective's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from anyorder.core import (
    AttentionBackend,
    BackboneOutput,
    Dropout,
    MemoryState,
    PositionBias,
    Slots,
    Streams,
    Visibility,
)

from .absolute import AbsoluteEmbedding
from .attention import Reader
from .distances import Distances
from .layer import Activation, TwoStreamLayer

BiasFactory = Callable[..., PositionBias]
"""Called with ``d_model``, ``n_head`` and ``d_head`` once a layer; may offer ``tie(first)``."""


class TransformerXL(nn.Module):
    """Transformer-XL layers over a content stream and, where the streams have one, a query stream.

    What may see what is in the streams alone: the model has no mode. Without a query stream it is the encoder used
    for fine-tuning; with everything visible, a bidirectional one; with time as position, a causal one.

    Args:
        vocab_size: number of pieces.
        n_layer, d_model, n_head, d_head, d_inner: sizes; ``d_head`` is ``d_model / n_head`` unless given.
        attention: backend of every layer.
        biases: score terms of every layer, such as ``(TransformerXLBias, SegmentBias)``.
        dropout: of embeddings, distances, residual branches, inner activations and the output.
        attention_dropout: of attention weights.
        activation: of the feed-forward block.
        clamp_len: distances beyond it count as it.
        untie_biases: one ``r_w``, ``r_r`` and ``r_s`` a layer (``untie_r``), or the same for all.
        init_std: standard deviation of every initial weight (``modeling.py``, normal initialiser).
        norm_eps: epsilon of layer norms.
        absolute_positions, absolute_segments: how many positions and segments have learned vectors, added to the
            words (BERT); None for none, as in Transformer-XL.
    """

    def __init__(
        self,
        *,
        vocab_size: int,
        n_layer: int,
        d_model: int,
        n_head: int,
        d_inner: int,
        attention: AttentionBackend,
        biases: Sequence[BiasFactory],
        d_head: int | None = None,
        dropout: float = 0.1,
        attention_dropout: float = 0.1,
        activation: Activation = "gelu",
        clamp_len: int | None = None,
        untie_biases: bool = True,
        init_std: float = 0.02,
        norm_eps: float = 1e-12,
        absolute_positions: int | None = None,
        absolute_segments: int | None = None,
    ) -> None:
        super().__init__()
        d_head = d_model // n_head if d_head is None else d_head
        self.n_layer, self.d_model, self.init_std = n_layer, d_model, init_std
        self.projected_width = 2 * n_head * d_head
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.query_embedding = nn.Parameter(torch.empty(d_model))
        self.absolute: AbsoluteEmbedding | None = None
        if absolute_positions is not None or absolute_segments is not None:
            self.absolute = AbsoluteEmbedding(positions=absolute_positions, segments=absolute_segments, d_model=d_model)
        self.distances = Distances(d_model=d_model, clamp_len=clamp_len, dropout=dropout)
        self.layers = nn.ModuleList(
            TwoStreamLayer(
                backend=attention,
                biases=[make(d_model=d_model, n_head=n_head, d_head=d_head) for make in biases],
                d_model=d_model,
                n_head=n_head,
                d_head=d_head,
                d_inner=d_inner,
                dropout=dropout,
                attention_dropout=attention_dropout,
                activation=activation,
                norm_eps=norm_eps,
            )
            for _ in range(n_layer)
        )
        self.drop = Dropout(dropout)
        if not untie_biases:
            self._tie_biases()
        self.reset_parameters()

    def forward(self, streams: Streams, memory: MemoryState | None = None) -> BackboneOutput:
        """Compute the streams.

        A content stream that nothing reads is left out of the last layer: its states there are None.

        Args:
            streams: what to compute.
            memory: of earlier segments; where it is ``projected``, so is what ``layer_inputs`` gives it to keep.
        """
        content, query = streams.content, streams.query
        keys = content if memory is None else memory.before(content)
        distances = self.distances(content, keys, dtype=self.embedding.weight.dtype)
        projected = memory is not None and memory.projected
        readers = [Reader(slots, Visibility.of(slots, keys)) for slots in (content, query) if slots is not None]

        states: Tensor = self.drop(self._embed_streams(content, query))
        inputs: list[Tensor] = []
        for index, layer in enumerate(self.layers):
            assert isinstance(layer, TwoStreamLayer)
            h = states[:, : content.count]
            kept = layer.attention.project(h) if projected else h
            inputs.append(kept)
            source = kept if memory is None else torch.cat([memory.layers[index].to(kept.dtype), kept], dim=1)
            key, value = (
                layer.attention.split_projected(source) if projected else layer.attention.keys_and_values(source)
            )
            if index + 1 == self.n_layer and not self._content_is_read(streams):
                states, readers = states[:, content.count :], readers[1:]
            states = layer(states, key, value, streams=readers, keys=keys, distances=distances)
        read = states.shape[1] - (0 if query is None else query.count)  # content slots left, all or none
        h, g = self.drop(states).split([read, states.shape[1] - read], dim=1)
        return BackboneOutput(
            content=h if read else None, query=None if query is None else g, layer_inputs=tuple(inputs)
        )

    def embed(self, ids: Int[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
        """Word vectors, or the learned query vector where a slot has no token."""
        words: Tensor = self.embedding(ids.clamp(min=0))
        return torch.where((ids < 0)[..., None], self.query_embedding.to(words.dtype), words)

    def _embed_streams(self, content: Slots, query: Slots | None) -> Float[Tensor, "B N D"]:
        """Both streams, one after the other, by one look-up: each has a gradient as large as the vocabulary."""
        streams = [slots for slots in (content, query) if slots is not None]
        vectors = self.embed(torch.cat([slots.ids for slots in streams], dim=1))
        if self.absolute is not None:
            vectors = vectors + torch.cat([self.absolute(slots) for slots in streams], dim=1)
        return vectors

    def reset_parameters(self) -> None:
        """Draw every weight from N(0, init_std); biases of dense layers 0, norms 1 and 0.

        The query vector too, as transformers does: the official code leaves it to TensorFlow's default (Glorot),
        whose limit of about 0.08 is the one odd scale in the model.
        """
        for module in self.modules():
            if isinstance(module, nn.LayerNorm):
                nn.init.ones_(module.weight)
                nn.init.zeros_(module.bias)
                continue
            for name, parameter in module.named_parameters(recurse=False):
                if name == "bias":
                    nn.init.zeros_(parameter)
                else:
                    nn.init.normal_(parameter, std=self.init_std)

    @staticmethod
    def _content_is_read(streams: Streams) -> bool:
        return streams.query is None or any(r.stream == "content" for r in streams.readouts.values())

    def _tie_biases(self) -> None:
        first, *rest = [layer.attention for layer in self.layers if isinstance(layer, TwoStreamLayer)]
        for attention in rest:
            attention.r_w_bias = first.r_w_bias
            for bias, original in zip(attention.biases, first.biases, strict=True):
                if hasattr(bias, "tie"):
                    bias.tie(original)  # type: ignore[operator]
