"""Spans of text that answer a question, and whether there is one: SQuAD 2."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from anyorder.core import LossOutput

from .dense import dense
from .pooling import pool_at
from .row_loss import row_loss, wide

FORBIDDEN = -1e30
"""Score of a place where no answer may lie. Finite, so that a label there gives a huge loss and not NaN."""


@dataclass(frozen=True, kw_only=True)
class SpanScores:
    """What training sees: the end is scored given the true start.

    Attributes:
        start, end: log-probabilities of the places.
        unanswerable: score of there being no answer.
    """

    start: Float[Tensor, "B N"]
    end: Float[Tensor, "B N"]
    unanswerable: Float[Tensor, " B"]
    loss: LossOutput | None = None


@dataclass(frozen=True, kw_only=True)
class SpanBeam:
    """The best starts, and for each of them the best ends.

    Attributes:
        start_index, start: places and log-probabilities, the best first.
        end_index, end: the same for ends, given each start.
        unanswerable: score of there being no answer.
    """

    start_index: Int[Tensor, "B S"]
    start: Float[Tensor, "B S"]
    end_index: Int[Tensor, "B S E"]
    end: Float[Tensor, "B S E"]
    unanswerable: Float[Tensor, " B"]


class QuestionAnswering(nn.Module):
    """Start, end given the start, and answerability (``function_builder.py`` ``get_qa_outputs``).

        start_j = w_s . h_j
        end_j   = w_e . LN(tanh(W_e [h_j ; h_start]))
        unanswerable = w_a . drop(tanh(W_a [sum_j p(start = j) h_j ; h_cls]))

    In training the start is the true one; :meth:`search` takes the most probable ones.

    Args:
        d_model: width of the hidden states.
        dropout: of the answerability features.
        norm_eps: epsilon of the layer norm.
        init_std: standard deviation of the initial weights.
    """

    def __init__(self, *, d_model: int, dropout: float = 0.1, norm_eps: float = 1e-12, init_std: float = 0.02) -> None:
        super().__init__()
        self.start = dense(d_model, 1, init_std=init_std)
        self.end_features = dense(2 * d_model, d_model, init_std=init_std)
        self.end_norm = nn.LayerNorm(d_model, eps=norm_eps)
        self.end = dense(d_model, 1, init_std=init_std)
        self.answer_features = dense(2 * d_model, d_model, init_std=init_std)
        self.drop = nn.Dropout(dropout)
        self.answer = dense(d_model, 1, bias=False, init_std=init_std)

    def forward(
        self,
        hidden: Float[Tensor, "B N D"],
        *,
        allowed: Bool[Tensor, "B N"],
        cls_index: Int[Tensor, " B"],
        start: Int[Tensor, " B"],
        end: Int[Tensor, " B"] | None = None,
        impossible: Float[Tensor, " B"] | None = None,
        weight: Float[Tensor, " B"] | None = None,
    ) -> SpanScores:
        """Score every place, the end given the true start.

        The loss of a row, given ``end`` and ``impossible``, is ``(start + end) / 2`` in nats plus half the binary
        cross entropy of ``impossible`` (``run_squad.py`` ``model_fn``).

        Args:
            hidden: states of the content stream.
            allowed: where an answer may lie: the passage, and the classification token that stands for none.
            cls_index: where the classification token stands.
            start, end: the answer; both at the classification token where there is none.
            impossible: 1 where there is no answer.
            weight: of each row.
        """
        start_logits = self._start_logits(hidden, allowed)
        start_scores = start_logits.log_softmax(dim=-1)
        given = pool_at(hidden, start)[:, None].expand_as(hidden)
        end_scores = self._end_logits(hidden, given).masked_fill(~allowed, FORBIDDEN).log_softmax(dim=-1)
        unanswerable = self._unanswerable(hidden, start_logits, cls_index)
        loss = None
        if end is not None and impossible is not None:
            spans = -(start_scores.gather(1, start[:, None]) + end_scores.gather(1, end[:, None])).squeeze(1)
            answerable = binary_cross_entropy_with_logits(
                unanswerable, impossible.to(unanswerable.dtype), reduction="none"
            )
            loss = row_loss(0.5 * spans + 0.5 * answerable, weight, metrics={"span": spans, "answerable": answerable})
        return SpanScores(start=start_scores, end=end_scores, unanswerable=unanswerable, loss=loss)

    def search(
        self,
        hidden: Float[Tensor, "B N D"],
        *,
        allowed: Bool[Tensor, "B N"],
        cls_index: Int[Tensor, " B"],
        starts: int = 5,
        ends: int = 5,
    ) -> SpanBeam:
        """The ``starts`` most probable starts, and the ``ends`` most probable ends given each of them.

        As in the official code an end may come before its start: whoever turns these into text drops such spans.
        """
        length = hidden.shape[1]
        start_logits = self._start_logits(hidden, allowed)
        start_top = start_logits.log_softmax(dim=-1).topk(min(starts, length), dim=-1)
        chosen = hidden.gather(1, start_top.indices[..., None].expand(-1, -1, hidden.shape[-1]))  # [B, S, D]
        states = hidden[:, None].expand(-1, chosen.shape[1], -1, -1)  # [B, S, N, D]
        end_logits = self._end_logits(states, chosen[:, :, None].expand_as(states))
        end_scores = end_logits.masked_fill(~allowed[:, None], FORBIDDEN).log_softmax(dim=-1)
        end_top = end_scores.topk(min(ends, length), dim=-1)
        return SpanBeam(
            start_index=start_top.indices,
            start=start_top.values,
            end_index=end_top.indices,
            end=end_top.values,
            unanswerable=self._unanswerable(hidden, start_logits, cls_index),
        )

    def _start_logits(self, hidden: Float[Tensor, "B N D"], allowed: Bool[Tensor, "B N"]) -> Float[Tensor, "B N"]:
        return wide(self.start(hidden)).squeeze(-1).masked_fill(~allowed, FORBIDDEN)

    def _end_logits(self, hidden: Float[Tensor, "... N D"], start: Float[Tensor, "... N D"]) -> Float[Tensor, "... N"]:
        features = torch.tanh(self.end_features(torch.cat([hidden, start], dim=-1)))
        return wide(self.end(self.end_norm(features))).squeeze(-1)

    def _unanswerable(
        self, hidden: Float[Tensor, "B N D"], start_logits: Float[Tensor, "B N"], cls_index: Int[Tensor, " B"]
    ) -> Float[Tensor, " B"]:
        probable = start_logits.softmax(dim=-1).to(hidden.dtype)
        expected = torch.einsum("bnd,bn->bd", hidden, probable)
        features = torch.tanh(self.answer_features(torch.cat([expected, pool_at(hidden, cls_index)], dim=-1)))
        return wide(self.answer(self.drop(features))).squeeze(-1)
