"""The contracts of attention backends and position biases catch wrong ones, each by the law it breaks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from held_to import catches, keep
from torch import Tensor, nn

from anyorder.core import AttentionRequest, DistanceTerm, MatchTerm, ScoreBias, Slots, Visibility
from anyorder.core.testing import AttentionBackendContract, PositionBiasContract, reference_attention


@dataclass(frozen=True)
class Attention:
    """A right backend, and by ``fault`` wrong ones."""

    fault: str = ""
    name: str = "plain"

    def refuse(self, request: AttentionRequest) -> str | None:
        return None

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        visibility: Visibility,
        bias: ScoreBias | None,
        scale: float,
        dropout: float = 0.0,
    ) -> Tensor:
        if self.fault == "expired keys are seen":
            visibility = replace(visibility, death=None)
        if self.fault == "spans have no limit":
            visibility = replace(visibility, back=None, ahead=None)
        seen = visibility.dense()[:, None]
        if self.fault == "padding is seen":
            seen = seen | (visibility.key_doc == -2)[:, None, None, :]
        score = scale * (query @ key.mT)
        if bias is not None:
            dense = bias.dense().detach() if self.fault == "no gradient to the bias" else bias.dense()
            score = score + (dense if self.fault == "bias outside the scale" else scale * dense)
        fill = torch.finfo(score.dtype).min if self.fault == "uniform over nothing" else -torch.inf
        weights = score.masked_fill(~seen, fill).softmax(dim=-1)
        if self.fault not in ("uniform over nothing", "nan over nothing"):
            weights = torch.where(seen, weights, 0.0) if seen.all() else self._safe(score, seen)
        out = self._drop(weights, dropout) @ value
        if self.fault == "dropout drawn again for the gradient" and dropout:
            again = self._drop(weights, dropout) @ value
            out = again + (out - again).detach()
        if self.fault == "uninitialised":
            out = out + 0 * torch.empty_like(out)
        return out.half().to(out.dtype) if self.fault == "low precision" else out

    def _drop(self, weights: Tensor, p: float) -> Tensor:
        if p == 0.0 or self.fault == "no dropout":
            return weights
        fault = self.fault
        like = weights[:, :1] if fault == "one dropout for all heads" else weights
        if fault == "one dropout for neighbours":
            like = weights[..., ::2]
        keep = torch.rand_like(like) >= p**2 if fault == "dropout too rare" else torch.rand_like(like) >= p
        if fault == "one dropout for neighbours":
            keep = keep.repeat_interleave(2, dim=-1)[..., : weights.shape[-1]]
        return weights * keep / (1.0 if fault == "dropout without its scale" else 1.0 - p)

    @staticmethod
    def _safe(score: Tensor, seen: Tensor) -> Tensor:
        finite = score.masked_fill(~seen, torch.finfo(score.dtype).min).softmax(dim=-1)
        return torch.where(seen, finite, 0.0)


@pytest.mark.parametrize(
    ("fault", "law"),
    [
        ("bias outside the scale", "outputs_and_gradients_are_the_definition"),
        ("no gradient to the bias", "outputs_and_gradients_are_the_definition"),
        ("low precision", "outputs_and_gradients_are_the_definition"),
        ("uniform over nothing", "an_empty_reader_gets_zeros_and_passes_no_gradient"),
        ("nan over nothing", "an_empty_reader_gets_zeros_and_passes_no_gradient"),
        ("padding is seen", "hidden_keys_do_not_matter"),
        ("uninitialised", "nothing_uninitialised_is_read"),
        ("no gradient to the bias", "any_input_alone_may_need_a_gradient"),
        ("low precision", "without_gradients_the_output_is_the_definition"),
        ("expired keys are seen", "outputs_and_gradients_are_the_definition"),
        ("spans have no limit", "outputs_and_gradients_are_the_definition"),
        ("no dropout", "dropout_drops_its_share_and_each_weight_by_itself"),
        ("no dropout", "dropout_keeps_the_mean_and_empty_readers_zero"),
        ("dropout too rare", "dropout_drops_its_share_and_each_weight_by_itself"),
        ("one dropout for all heads", "dropout_drops_its_share_and_each_weight_by_itself"),
        ("one dropout for neighbours", "dropout_drops_its_share_and_each_weight_by_itself"),
        ("dropout without its scale", "dropout_keeps_the_mean_and_empty_readers_zero"),
        ("dropout without its scale", "dropout_is_one_draw_for_output_and_gradients"),
        ("dropout drawn again for the gradient", "dropout_is_one_draw_for_output_and_gradients"),
    ],
)
def test_wrong_attention_is_caught(fault: str, law: str) -> None:
    assert catches(law, AttentionBackendContract, lambda: Attention(fault), lengths=(1, 7))


def test_the_reference_is_attention_over_the_keys_that_are_seen() -> None:
    """Reader by reader, over the keys it sees and no others."""
    query, key, value, bias = (torch.randn(2, 3, 4, n, dtype=torch.float64) for n in (5, 5, 5, 4))
    visible = torch.rand(2, 4, 4) < 0.5
    visible[0, 1] = False
    out = reference_attention(query, key, value, visible=visible, bias=bias, scale=0.7)
    for b in range(2):
        for h in range(3):
            for q in range(4):
                keys = visible[b, q].nonzero().flatten()
                score = 0.7 * (key[b, h, keys] @ query[b, h, q] + bias[b, h, q, keys])
                expected = score.softmax(dim=0) @ value[b, h, keys]
                assert torch.allclose(out[b, h, q], expected, atol=1e-14)
    assert not out[0, :, 1].any()


def test_right_attention_passes() -> None:
    keep(AttentionBackendContract, Attention)


class Position(nn.Module):
    """A right bias, with a distance and a segment term, and by ``fault`` wrong ones."""

    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.fault = fault
        self.project = nn.Parameter(torch.zeros(2, 12, 6))
        self.match = nn.Parameter(torch.zeros(2, 6, 2))

    def forward(self, query: Tensor, *, readers: Slots, keys: Slots, distances: Tensor | None) -> ScoreBias | None:
        assert distances is not None
        assert readers.segment is not None
        assert keys.segment is not None
        backward = torch.zeros(1, dtype=torch.long)
        if readers.direction is not None and self.fault != "direction ignored":
            backward = (readers.direction < 0).long()
        codes = torch.einsum("gnw,hwd->ghdn", distances, self.project)[backward]
        contiguous = readers.contiguous and keys.contiguous
        off = int(self.fault == "shift off by one" and contiguous)
        distance = DistanceTerm(
            query=query,
            codes=codes.roll(off, dims=-1),
            reader=readers.position,
            key=keys.position,
            high=readers.high - keys.low,
            contiguous=contiguous,
        )
        if self.fault == "absolute":
            place = readers.position[:, None, :, None].double()
            distance = replace(distance, query=query + 0.01 * place)
        match = MatchTerm(scores=query @ self.match, reader=readers.segment, key=keys.segment)
        return ScoreBias((distance, match))


@pytest.mark.parametrize(
    ("fault", "law"),
    [
        ("shift off by one", "contiguous_slots_take_no_other_values"),
        ("direction ignored", "a_backward_row_has_distances_of_the_other_sign"),
        ("absolute", "only_distances_count"),
    ],
)
def test_wrong_position_biases_are_caught(fault: str, law: str) -> None:
    assert catches(law, PositionBiasContract, lambda: Position(fault))


def test_a_right_position_bias_passes() -> None:
    keep(PositionBiasContract, Position)
