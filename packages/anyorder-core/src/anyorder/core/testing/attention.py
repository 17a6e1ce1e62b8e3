"""What every attention backend must keep: the plain definition, in outputs and gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from ..bias import DistanceTerm, MatchTerm, ScoreBias, ScoreTerm
from ..protocols import AttentionBackend, AttentionRequest
from ..slots import Slots
from ..state import MemoryState
from ..visibility import Visibility
from .reference import reference_attention

_FACTORS: dict[type, tuple[str, ...]] = {DistanceTerm: ("query", "codes"), MatchTerm: ("scores",)}
"""The tensors of a term that carry gradients."""


@dataclass(frozen=True, kw_only=True)
class AttentionCase:
    """One call. ``leaves`` are the tensors whose gradients are compared."""

    name: str
    query: Float[Tensor, "B H Q d"]
    key: Float[Tensor, "B H K d"]
    value: Float[Tensor, "B H K d"]
    visibility: Visibility
    bias: ScoreBias | None

    @property
    def leaves(self) -> list[Tensor]:
        terms = () if self.bias is None else self.bias.terms
        tables = [getattr(term, name) for term in terms for name in _FACTORS[type(term)]]
        return [self.query, self.key, self.value, *tables]


class AttentionBackendContract:
    """Subclass as ``TestMyBackend`` and override ``make``; pytest then compares it with the plain definition.

    A case whose request the backend refuses is left out, but it must serve at least one.

    Attributes:
        device, dtype: where to run.
        tolerance: greatest difference from the definition in float64, relative to values of order one.
    """

    device = "cpu"
    dtype = torch.float64
    tolerance = 1e-10
    lengths: Sequence[int] = (1, 7, 63, 100)
    memories: Sequence[int] = (0, 5)
    heads = 2
    head_dim = 8

    def make(self) -> AttentionBackend:
        """The backend under test."""
        raise NotImplementedError

    def request(self, *, bias: bool) -> AttentionRequest:
        return AttentionRequest(
            device=torch.device(self.device),
            dtype=self.dtype,
            training=True,
            bias=bias,
            bias_grad=bias,
            dropout=0.0,
            head_dim=self.head_dim,
        )

    def cases(self) -> Iterator[AttentionCase]:
        """Every served combination of length, memory, stream and bias; padding and documents in each.

        Content readers, query readers, and content readers whose attention span is limited.
        """
        served = 0
        for bias in (False, True):
            if self.make().refuse(self.request(bias=bias)) is not None:
                continue
            for length in self.lengths:
                for memory in self.memories:
                    for stream in ("content", "query", "narrow"):
                        served += 1
                        yield self._case(length, memory, stream, bias=bias)
        assert served, "the backend refuses every request of this contract"

    def test_says_why_it_refuses(self) -> None:
        backend = self.make()
        assert isinstance(backend, AttentionBackend)
        assert backend.name
        for dtype in (torch.float64, torch.float32, torch.bfloat16):
            for bias in (False, True):
                answer = backend.refuse(replace(self.request(bias=bias), dtype=dtype))
                assert answer is None or (isinstance(answer, str) and answer), "None, or a reason"

    def test_outputs_and_gradients_are_the_definition(self) -> None:
        for case in self.cases():
            self._compare(case)

    def test_nothing_uninitialised_is_read(self) -> None:
        for case in self.cases():
            clean = self._run(case)
            with _poisoned_empty():
                poisoned = self._run(case)
            for one, other in zip(clean, poisoned, strict=True):
                assert torch.allclose(one, other, rtol=0, atol=self.tolerance), f"{case.name}: NaN was read"

    def test_an_empty_reader_gets_zeros_and_passes_no_gradient(self) -> None:
        met = 0
        for case in self.cases():
            empty = ~case.visibility.dense().any(dim=2)  # [B, Q]
            met += int(empty.sum())
            out = self._call(case)
            assert not out.transpose(1, 2)[empty].any(), f"{case.name}: an empty reader is not zero"
            gradients = torch.autograd.grad(out.transpose(1, 2)[empty].sum(), case.leaves, allow_unused=True)
            for gradient in gradients:
                assert gradient is None or not gradient.any(), f"{case.name}: an empty reader passes gradient"
        assert met, "no case had an empty reader"

    def test_hidden_keys_do_not_matter(self) -> None:
        for case in self.cases():
            seen = case.visibility.dense().any(dim=1)[:, None, :, None]  # [B, 1, K, 1]
            other = replace(
                case,
                key=torch.where(seen, case.key, 1e3).detach(),
                value=torch.where(seen, case.value, -1e3).detach(),
            )
            assert torch.equal(self._call(case), self._call(other)), f"{case.name}: a hidden key moved a reader"

    def test_dropout_drops_and_keeps_empty_readers_zero(self) -> None:
        case = self._case(max(self.lengths), 0, "query", bias=False)
        if self.make().refuse(replace(self.request(bias=False), dropout=0.5)) is not None:
            return
        torch.manual_seed(0)
        out = self._call(case, dropout=0.5)
        assert bool(out.isfinite().all())
        assert not torch.equal(out, self._call(case)), "dropout had no effect"
        empty = ~case.visibility.dense().any(dim=2)
        assert not out.transpose(1, 2)[empty].any()

    def _call(self, case: AttentionCase, *, dropout: float = 0.0) -> Tensor:
        return self.make()(
            case.query,
            case.key,
            case.value,
            visibility=case.visibility,
            bias=case.bias,
            scale=0.3,
            dropout=dropout,
        )

    def _run(self, case: AttentionCase) -> list[Tensor]:
        """The output and the gradient of every leaf."""
        out = self._call(case)
        gradients = torch.autograd.grad(out, case.leaves, _cotangent(case).to(out), materialize_grads=True)
        return [out.detach(), *gradients]

    def _compare(self, case: AttentionCase) -> None:
        out, *gradients = self._run(case)
        assert out.shape == case.query.shape, case.name
        assert out.dtype == case.query.dtype, case.name
        leaves = [leaf.detach().double().cpu().requires_grad_() for leaf in case.leaves]
        truth = reference_attention(
            *leaves[:3],
            visible=case.visibility.dense().cpu(),
            bias=_dense_by_entry(case, leaves[3:]),
            scale=0.3,
        )
        true_gradients = torch.autograd.grad(truth, leaves, _cotangent(case), materialize_grads=True)
        self._close(case.name, out, truth.detach())
        names = ("query", "key", "value", *(f"bias {n}" for n in range(len(leaves) - 3)))
        for name, ours, theirs in zip(names, gradients, true_gradients, strict=True):
            self._close(f"{case.name}, gradient of {name}", ours, theirs)

    def _close(self, name: str, ours: Tensor, theirs: Tensor) -> None:
        error = float((ours.double().cpu() - theirs).abs().max())
        bound = self.tolerance * max(1.0, float(theirs.abs().max()))
        assert error <= bound, f"{name}: off by {error:.3g}, where {bound:.3g} is allowed"

    def _case(self, length: int, memory: int, stream: str, *, bias: bool) -> AttentionCase:
        draw = torch.Generator().manual_seed(length * 100 + memory)
        rows = 3
        position = torch.arange(length).expand(rows, -1)
        doc = torch.zeros(rows, length, dtype=torch.long)
        doc[1, length // 2 :] = 1
        doc[2, : length // 3] = -1
        time = torch.rand(rows, length, generator=draw).argsort(dim=1) + 1
        segment = (torch.rand(rows, length, generator=draw) < 0.5).long()
        content = Slots(
            ids=position,
            position=position,
            birth=time,
            time=time,
            doc=doc,
            segment=segment,
            low=0,
            high=length,
            contiguous=True,
        )
        past_doc = torch.zeros(rows, memory, dtype=torch.long)
        past_doc[0] = -1
        past = MemoryState(layers=(), position=torch.arange(-memory, 0).expand(rows, -1), doc=past_doc)
        keys = past.before(content)
        readers = content
        if stream == "query":
            readers = replace(content, time=time - 1, birth=time, contiguous=False)
        elif stream == "narrow":
            readers = replace(content, back=4, ahead=2)
        keys, readers = keys.to(self.device), readers.to(self.device)

        def leaf(*shape: int) -> Tensor:
            return torch.randn(shape, generator=draw).to(self.device, self.dtype).requires_grad_()

        high = readers.high - keys.low
        distances = high - (readers.low - keys.high)
        terms = (
            DistanceTerm(
                query=leaf(rows, self.heads, length, self.head_dim),
                codes=leaf(1, self.heads, self.head_dim, distances),
                reader=readers.position,
                key=keys.position,
                high=high,
                contiguous=readers.contiguous and keys.contiguous,
            ),
            MatchTerm(scores=leaf(rows, self.heads, length, 2), reader=_segments(readers), key=_segments(keys)),
        )
        return AttentionCase(
            name=f"length {length}, memory {memory}, {stream} stream, {'a' if bias else 'no'} bias",
            query=leaf(rows, self.heads, length, self.head_dim),
            key=leaf(rows, self.heads, memory + length, self.head_dim),
            value=leaf(rows, self.heads, memory + length, self.head_dim),
            visibility=Visibility.of(readers, keys),
            bias=ScoreBias(terms) if bias else None,
        )


def _cotangent(case: AttentionCase) -> Tensor:
    return torch.randn(case.query.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def _segments(slots: Slots) -> Tensor:
    assert slots.segment is not None
    return slots.segment


def _dense_by_entry(case: AttentionCase, tables: list[Tensor]) -> Tensor | None:
    """The bias from its definition, looked up entry by entry in other tables of the same shape."""
    if case.bias is None:
        return None
    remaining = iter(tables)
    terms: list[ScoreTerm] = []
    for term in case.bias.terms:
        if isinstance(term, DistanceTerm):
            query, codes = next(remaining), next(remaining)
            terms.append(replace(term.to("cpu"), query=query, codes=codes))
        else:
            assert isinstance(term, MatchTerm)
            terms.append(replace(term.to("cpu"), scores=next(remaining)))
    shape = (*case.query.shape[:3], case.key.shape[2])
    places = torch.meshgrid(*(torch.arange(size) for size in shape), indexing="ij")
    return ScoreBias(tuple(terms)).score_mod()(*places)


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
