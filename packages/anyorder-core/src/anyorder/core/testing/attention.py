"""What every attention backend must keep: the plain definition, in outputs and gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product

import torch
from torch import Tensor

from ..protocols import AttentionBackend, AttentionRequest
from ..slots import DEATH, SPAN
from .attention_cases import BIASES, READERS, AttentionCase, attention_case
from .attention_dropout import AttentionDropoutLaws


class AttentionBackendContract(AttentionDropoutLaws):
    """Subclass as ``TestMyBackend`` and override ``make``; pytest then compares it with the plain definition.

    A case whose request the backend refuses is left out, but it must serve at least one. A backend that refuses to
    train is held to its outputs alone.

    How far it may be off: a score ``s`` of the size that a dtype rounds by ``eps`` is off by ``s * eps``, and a weight,
    its exponential, relatively as much; outputs and gradients are sums of products of weights. The allowance is hence
    ``roundings * eps * (1 + greatest score)``, relative to the greatest value of what is compared or to one.

    Attributes:
        device, dtypes: where and in what to run.
        roundings: how many roundings in a row may add up.
        lengths, memories: content tokens and remembered ones.
    """

    device = "cpu"
    dtypes: Sequence[torch.dtype] = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
    roundings = 4.0
    lengths: Sequence[int] = (1, 7, 32, 45)
    memories: Sequence[int] = (0, 5)
    heads = 2
    head_dim = 8

    def make(self) -> AttentionBackend:
        """The backend under test."""
        raise NotImplementedError

    def eps(self, dtype: torch.dtype) -> float:
        """By how much the backend rounds, relatively: more than the dtype where it multiplies in another."""
        return torch.finfo(dtype).eps

    def request(
        self,
        *,
        bias: bool,
        dtype: torch.dtype = torch.float32,
        training: bool = True,
        rules: frozenset[str] = frozenset(),
    ) -> AttentionRequest:
        return AttentionRequest(
            device=torch.device(self.device),
            dtype=dtype,
            training=training,
            bias=bias,
            bias_grad=bias and training,
            dropout=0.0,
            head_dim=self.head_dim,
            rules=rules,
        )

    def cases(self, *, training: bool, dtypes: Sequence[torch.dtype] | None = None) -> Iterator[AttentionCase]:
        """What the backend serves of every kind of reader and bias, each with some of the lengths and memories."""
        backend, served = self.make(), 0
        kinds = list(enumerate(product(READERS, BIASES)))
        sizes = list(enumerate(product(self.lengths, self.memories)))
        for dtype in self.dtypes if dtypes is None else dtypes:
            for (number, (readers, bias)), (turn, (length, memory)) in product(kinds, sizes):
                if (number + turn) % 3 and len(sizes) > 2:
                    continue
                asked = self.request(bias=bias != "no bias", dtype=dtype, training=training, rules=READERS[readers])
                if backend.refuse(asked) is None:
                    served += 1
                    yield self.case(length=length, memory=memory, readers=readers, bias=bias, dtype=dtype)
        assert served or training or dtypes is not None, "the backend refuses every request of this contract"

    def case(self, *, length: int, memory: int, readers: str, bias: str, dtype: torch.dtype) -> AttentionCase:
        """One call at this contract's sizes."""
        return attention_case(
            length=length,
            memory=memory,
            readers=readers,
            bias=bias,
            heads=self.heads,
            head_dim=self.head_dim,
            device=self.device,
            dtype=dtype,
        )

    def test_says_why_it_refuses(self) -> None:
        backend = self.make()
        assert isinstance(backend, AttentionBackend)
        assert backend.name
        flags = (False, True)
        for dtype, bias, training, compiled, deterministic in product(self.dtypes, flags, flags, flags, flags):
            request = self.request(bias=bias, dtype=dtype, training=training, rules=frozenset({DEATH, SPAN}))
            for dropout in (0.0, 0.1):
                asked = replace(request, dropout=dropout, compiled=compiled, deterministic=deterministic)
                answer = backend.refuse(asked)
                assert answer is None or (isinstance(answer, str) and answer), "None, or a reason"

    def test_outputs_and_gradients_are_the_definition(self) -> None:
        for case in self.cases(training=True):
            out, *gradients = self.run(case)
            assert out.shape == case.query.shape, case.name
            assert out.dtype == case.query.dtype, case.name
            self.compare(case, out, gradients)

    def test_without_gradients_the_output_is_the_definition(self) -> None:
        """Evaluation may take another path through a backend than training."""
        for case in self.cases(training=False):
            with torch.no_grad():
                self.compare(case, self.call(case), [])

    def test_nothing_uninitialised_is_read(self) -> None:
        for case, training in self._served_once():
            clean = self.run(case, training=training)
            with _poisoned_empty():
                poisoned = self.run(case, training=training)
            for one, other in zip(clean, poisoned, strict=True):
                assert torch.allclose(one, other, rtol=0, atol=1e-4), f"{case.name}: NaN was read"

    def test_an_empty_reader_gets_zeros_and_passes_no_gradient(self) -> None:
        met = 0
        for case, training in self._served_once():
            empty = ~case.visibility.dense().any(dim=2)  # [B, Q]
            met += int(empty.sum())
            with torch.set_grad_enabled(training):
                out = self.call(case)
            assert not out.transpose(1, 2)[empty].any(), f"{case.name}: an empty reader is not zero"
            if training:
                read = out.transpose(1, 2)[empty].sum()
                for gradient in torch.autograd.grad(read, case.leaves, allow_unused=True):
                    assert gradient is None or not gradient.any(), f"{case.name}: an empty reader passes gradient"
        assert met, "no case had an empty reader"

    def test_hidden_keys_do_not_matter(self) -> None:
        for case, training in self._served_once():
            seen = case.visibility.dense().any(dim=1)[:, None, :, None]  # [B, 1, K, 1]
            other = replace(
                case,
                key=torch.where(seen, case.key, 1e3).detach(),
                value=torch.where(seen, case.value, -1e3).detach(),
            )
            with torch.set_grad_enabled(training):
                assert torch.equal(self.call(case), self.call(other)), f"{case.name}: a hidden key moved a reader"

    def test_any_input_alone_may_need_a_gradient(self) -> None:
        dtype = self._trained_dtype()
        if dtype is None:
            return
        for case in self.cases(training=True, dtypes=[dtype]):
            if case.query.shape[2] != self.lengths[-1]:
                continue
            _, *gradients = self.run(case)
            allowed = self._allowed(case.definition(), dtype=dtype)
            for place, expected in enumerate(gradients):
                leaves = [leaf.detach().requires_grad_(n == place) for n, leaf in enumerate(case.leaves)]
                alone = case.with_leaves(leaves)
                out = self.call(alone)
                assert out.requires_grad, f"{case.name}: {case.leaf_names[place]} alone gets no gradient"
                (gradient,) = torch.autograd.grad(
                    out, [leaves[place]], _cotangent(case).to(out), materialize_grads=True
                )
                off = float((gradient - expected).abs().max())
                bound = 2 * allowed * max(1.0, float(expected.abs().max()))  # both are off
                assert off <= bound, f"{case.name}: off by {off:.3g} where {case.leaf_names[place]} alone needs one"

    def call(self, case: AttentionCase, *, dropout: float = 0.0) -> Tensor:
        return self.make()(
            case.query,
            case.key,
            case.value,
            visibility=case.visibility,
            bias=case.bias,
            scale=case.scale,
            dropout=dropout,
        )

    def run(self, case: AttentionCase, *, training: bool = True, dropout: float = 0.0) -> list[Tensor]:
        """The output, and in training the gradient of every leaf."""
        if not training:
            with torch.no_grad():
                return [self.call(case, dropout=dropout)]
        out = self.call(case, dropout=dropout)
        gradients = torch.autograd.grad(out, case.leaves, _cotangent(case).to(out), materialize_grads=True)
        return [out.detach(), *gradients]

    def compare(
        self,
        case: AttentionCase,
        out: Tensor,
        gradients: Sequence[Tensor],
        *,
        keep: Tensor | None = None,
        dropout: float = 0.0,
    ) -> None:
        """Hold an output, and gradients if there are any, to the definition."""
        exact = case.definition()
        truth = exact.reference(keep=keep, dropout=dropout)
        allowed = self._allowed(exact, dtype=case.query.dtype)
        pairs = [("output", out, truth.detach())]
        if gradients:
            truths = torch.autograd.grad(truth, exact.leaves, _cotangent(case), materialize_grads=True)
            pairs += zip(case.leaf_names, gradients, truths, strict=True)
        for name, ours, theirs in pairs:
            error = float((ours.double().cpu() - theirs).abs().max())
            bound = allowed * max(1.0, float(theirs.abs().max()))
            what = name if name == "output" else f"gradient of {name}"
            assert error <= bound, f"{case.name}, {what}: off by {error:.3g}, where {bound:.3g} is allowed"

    def _allowed(self, exact: AttentionCase, *, dtype: torch.dtype) -> float:
        return self.roundings * self.eps(dtype) * (1.0 + exact.largest_score())

    def _trained_dtype(self) -> torch.dtype | None:
        """The first dtype that the backend trains in."""
        backend = self.make()
        for dtype in self.dtypes:
            if backend.refuse(self.request(bias=False, dtype=dtype)) is None:
                return dtype
        return None

    def _served_once(self) -> Iterator[tuple[AttentionCase, bool]]:
        """The cases in one dtype, and whether they are trained."""
        trained = self._trained_dtype()
        if trained is not None:
            yield from ((case, True) for case in self.cases(training=True, dtypes=[trained]))
            return
        backend = self.make()
        dtypes = [d for d in self.dtypes if backend.refuse(self.request(bias=False, dtype=d, training=False)) is None]
        yield from ((case, False) for case in self.cases(training=False, dtypes=dtypes[:1]))


def _cotangent(case: AttentionCase) -> Tensor:
    return torch.randn(case.query.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@contextmanager
def _poisoned_empty() -> Iterator[None]:
    """Fill what torch allocates without writing to it with NaN."""
    before = (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled())
    # With it comes torch.utils.deterministic.fill_uninitialized_memory, which is on unless turned off.
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
