"""What dropout of attention weights must be: independent, of the right share, and one draw for both passes.

Values that are unit vectors show every weight, so that one call lays open which were dropped; a second call with the
same seed must then be, in outputs and gradients, the definition with just those weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ..protocols import AttentionBackend, AttentionRequest
from .attention_cases import AttentionCase, attention_case

_RATE = 0.3
_LENGTH, _MEMORY = 59, 5
_ERRORS = 6.0  # standard errors: by chance two in a billion


class AttentionDropoutLaws:
    """Part of ``AttentionBackendContract``. A backend that refuses dropout passes."""

    device: str
    dtypes: Sequence[torch.dtype]
    heads: int

    def make(self) -> AttentionBackend:
        raise NotImplementedError

    def request(self, *, bias: bool, dtype: torch.dtype = torch.float32, training: bool = True) -> AttentionRequest:
        raise NotImplementedError

    def call(self, case: AttentionCase, *, dropout: float = 0.0) -> Tensor:
        raise NotImplementedError

    def run(self, case: AttentionCase, *, dropout: float = 0.0) -> list[Tensor]:
        raise NotImplementedError

    def compare(
        self, case: AttentionCase, out: Tensor, gradients: Sequence[Tensor], *, keep: Tensor, dropout: float
    ) -> None:
        raise NotImplementedError

    def test_dropout_is_one_draw_for_output_and_gradients(self) -> None:
        for dtype in self._dropping():
            case = self._case(dtype)
            for seed in range(2):
                keep = self._kept(case, seed)
                torch.manual_seed(seed)
                out, *gradients = self.run(case, dropout=_RATE)
                self.compare(case, out, gradients, keep=keep.cpu(), dropout=_RATE)

    def test_dropout_drops_its_share_and_each_weight_by_itself(self) -> None:
        for dtype in self._dropping()[:1]:
            case = self._case(dtype)
            seen = case.visibility.dense()[:, None].expand(-1, self.heads, -1, -1)  # [B, H, Q, K]
            draws = torch.stack([self._kept(case, seed) for seed in range(8)])  # [N, B, H, Q, K]
            seen = seen.expand_as(draws)
            kept, count = float(draws[seen].double().mean()), int(seen.sum())
            error = (_RATE * (1 - _RATE) / count) ** 0.5
            assert abs(kept - (1 - _RATE)) < _ERRORS * error, f"{1 - kept:.4f} of the weights dropped, not {_RATE}"
            for axis, what in enumerate(("calls", "rows", "heads", "readers", "keys")):
                for apart in range(1, draws.shape[axis]):
                    _assert_independent(draws, seen, axis=axis, apart=apart, what=f"{what} {apart} apart")

    def test_dropout_keeps_the_mean_and_empty_readers_zero(self) -> None:
        """Over many draws, the output without dropout within its standard error, and spread as it should be."""
        times = 200
        for dtype in self._dropping()[:1]:
            case = self._case(dtype, length=11, memory=_MEMORY)
            torch.manual_seed(0)
            with torch.no_grad():
                outs = torch.stack([self.call(case, dropout=_RATE).double().cpu() for _ in range(times)])
            empty = ~case.visibility.dense().any(dim=2).cpu()
            assert not outs.transpose(2, 3)[:, empty].any(), "an empty reader is not zero"
            exact = case.definition()
            weights = replace(exact, value=_unit_vectors(exact)).reference().detach()[..., : exact.key.shape[2]]
            truth = weights @ exact.value.detach()
            variance = weights.square() @ exact.value.detach().square() * _RATE / (1 - _RATE)  # [B, H, Q, d]
            some = ~empty[:, None, :, None].expand_as(truth)
            scores = ((outs.mean(dim=0) - truth) / (variance / times).sqrt())[some]
            assert float(scores.abs().max()) < _ERRORS, f"the mean is {float(scores.abs().max()):.1f} errors away"
            spread = float((outs.var(dim=0) / variance)[some].mean())
            # A variance of n draws is off by at most sqrt(2 / n): sums of few coins have thinner tails than a normal.
            allowed = _ERRORS * (2 / times) ** 0.5
            assert abs(spread - 1) < allowed, f"the variance is {spread:.2f} of what it should be"

    def _dropping(self) -> list[torch.dtype]:
        """The dtypes in which the backend trains with dropout."""
        return [dtype for dtype in self.dtypes if any(self._drops(dtype, bias=bias) for bias in (True, False))]

    def _drops(self, dtype: torch.dtype, *, bias: bool) -> bool:
        asked = replace(self.request(bias=bias, dtype=dtype), dropout=_RATE, head_dim=_LENGTH + _MEMORY)
        return self.make().refuse(asked) is None

    def _case(self, dtype: torch.dtype, *, length: int = _LENGTH, memory: int = _MEMORY) -> AttentionCase:
        """A call as wide as it has keys, whose scores are small: no weight is too small to be seen."""
        case = attention_case(
            length=length,
            memory=memory,
            readers="query",
            bias="one table" if self._drops(dtype, bias=True) else "no bias",
            heads=self.heads,
            head_dim=_LENGTH + _MEMORY,
            device=self.device,
            dtype=dtype,
        )
        return replace(case, scale=1 / 16)

    def _kept(self, case: AttentionCase, seed: int) -> Tensor:
        """Which weights [B, H, Q, K] survive in a call with this seed."""
        torch.manual_seed(seed)
        keys = case.key.shape[2]
        return self.call(replace(case, value=_unit_vectors(case)), dropout=_RATE).detach()[..., :keys] != 0


def _unit_vectors(case: AttentionCase) -> Tensor:
    """Values [B, H, K, d] of which the ``k``-th is 1 at ``k``, laid out as the case's own."""
    values = torch.zeros_like(case.value.detach())
    values.diagonal(dim1=2, dim2=3).fill_(1.0)
    return values.requires_grad_()


def _assert_independent(draws: Tensor, seen: Tensor, *, axis: int, apart: int, what: str) -> None:
    """Weights at two places are both kept or both dropped as often as chance has it."""
    size = draws.shape[axis] - apart
    both = seen.narrow(axis, 0, size) & seen.narrow(axis, apart, size)
    count = int(both.sum())
    if not count:
        return
    agree = float((draws.narrow(axis, 0, size) == draws.narrow(axis, apart, size))[both].double().mean())
    chance = _RATE**2 + (1 - _RATE) ** 2
    # Neighbours in a chain of such pairs share a weight: at most doubles the variance.
    error = (2 * chance * (1 - chance) / count) ** 0.5
    assert abs(agree - chance) < _ERRORS * error, f"{what}, weights are dropped together: {agree:.3f}, not {chance:.3f}"
