"""What every loss head must keep."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from ..batch import TokenBatch
from ..draws import Draws
from ..protocols import LossHead, LossOutput
from ..slots import Readout, Streams
from ..vocab import Vocab
from .examples import example_batches, example_plan, take_rows
from .reference import ReferenceTwoStream


class LossHeadContract:
    """Subclass as ``TestMyHead`` and override ``make``; parameters are filled with noise before each test."""

    vocab = Vocab(size=40)
    width = 8
    length = 24
    tolerance = 1e-10

    def make(self) -> LossHead:
        """The head under test, for states of ``width``."""
        raise NotImplementedError

    def batch(self) -> TokenBatch:
        """A batch with what the head asks for: here separators, a classification token and labels of pairs."""
        batch = example_batches(self.length, vocab=self.vocab, rows=4)["with special tokens"]
        return replace(batch, labels=dict.fromkeys(("next_sentence", "sentence_order"), torch.arange(batch.rows) % 2))

    def streams(self, batch: TokenBatch) -> Streams:
        plan = example_plan(batch, traits=frozenset())
        return ReferenceTwoStream().build(
            batch, plan, vocab=self.vocab, num_targets=self.length, generator=Draws(0, rows=batch.rows)
        )

    def case(self) -> tuple[LossHead, Tensor, Readout, Tensor]:
        """A head with its readout, random states at it, and an embedding, all wanting gradients."""
        head = self.make()
        draw = torch.Generator().manual_seed(4)
        if isinstance(head, nn.Module):
            head.double()
            for parameter in head.parameters():
                with torch.no_grad():
                    parameter.copy_(torch.randn(parameter.shape, generator=draw, dtype=torch.float64) * 0.3)
        batch = self.batch()
        readout = head.readout(batch, self.streams(batch))
        shape = (*readout.index.shape, self.width)
        hidden = torch.randn(shape, generator=draw, dtype=torch.float64).requires_grad_()
        embedding = torch.randn(self.vocab.size, self.width, generator=draw, dtype=torch.float64).requires_grad_()
        return head, hidden, replace(readout, weight=readout.weight.double()), embedding

    def test_is_a_loss_head(self) -> None:
        assert isinstance(self.make(), LossHead)

    def test_readout_lies_in_its_stream(self) -> None:
        head, batch = self.make(), self.batch()
        streams = self.streams(batch)
        readout = head.readout(batch, streams)
        slots = streams.content if readout.stream == "content" else streams.query
        assert slots is not None
        assert readout.index.shape == readout.labels.shape == readout.weight.shape
        assert int(readout.index.min()) >= 0
        assert int(readout.index.max()) < slots.count
        assert bool((readout.weight >= 0).all())
        assert bool(readout.weight.any())

    def test_is_a_finite_sum_and_a_weight(self) -> None:
        head, hidden, readout, embedding = self.case()
        out = head(hidden, readout, embedding=embedding)
        for number in (out.loss_sum, out.weight_sum, *out.metrics.values()):
            assert number.shape == ()
            assert bool(number.isfinite())
        assert float(out.weight_sum.detach()) == float(readout.weight.sum())
        counted = replace(readout, count=torch.arange(1.0, 1.0 + readout.weight.shape[0], dtype=torch.float64))
        other = head(hidden, counted, embedding=embedding)
        assert float(other.weight_sum.detach()) == float(counted.weight_sum), "divide by Readout.weight_sum"
        if out.per_target is not None:
            assert out.per_target.shape == readout.weight.shape
            self._close(out.loss_sum, (out.per_target * readout.weight).sum())

    def test_weight_scales_the_sum(self) -> None:
        head, hidden, readout, embedding = self.case()
        once = head(hidden, readout, embedding=embedding)
        twice = head(hidden, replace(readout, weight=2 * readout.weight), embedding=embedding)
        self._close(2 * once.loss_sum, twice.loss_sum)

    def test_predictions_of_no_weight_change_nothing(self) -> None:
        head, hidden, readout, embedding = self.case()
        off = torch.arange(readout.weight.numel()).view(readout.weight.shape) % 2 == 1
        weight = readout.weight.masked_fill(off, 0.0)
        none = weight == 0
        readout = replace(readout, weight=weight)
        out = head(hidden, readout, embedding=embedding)
        noise = torch.where(none[..., None], 7.0, hidden)
        labels = torch.where(none, 0, readout.labels)
        other = head(noise, replace(readout, labels=labels), embedding=embedding)
        self._same(out, other)
        (gradient,) = torch.autograd.grad(out.loss_sum, [hidden])
        assert not gradient[none].any(), "a prediction of weight 0 passes gradient"
        assert bool(gradient[~none].any()), "no prediction passes gradient"

    def test_nothing_to_predict_is_a_zero_that_can_be_differentiated(self) -> None:
        head, hidden, readout, embedding = self.case()
        out = head(hidden, replace(readout, weight=torch.zeros_like(readout.weight)), embedding=embedding)
        assert float(out.loss_sum.detach()) == 0.0
        assert float(out.weight_sum.detach()) == 0.0
        (gradient,) = torch.autograd.grad(out.loss_sum, [hidden])
        assert not gradient.any()

    def test_parts_add_up_to_the_whole(self) -> None:
        head, hidden, readout, embedding = self.case()
        whole = head(hidden, readout, embedding=embedding)
        loss, weight = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
        metrics = {name: torch.zeros((), dtype=torch.float64) for name in whole.metrics}
        for rows in ([0], [1, 2, 3]):
            part = head(hidden[rows], take_rows(readout, rows), embedding=embedding)
            loss, weight = loss + part.loss_sum, weight + part.weight_sum
            metrics = {name: metrics[name] + part.metrics[name] for name in metrics}
        self._same(whole, LossOutput(loss_sum=loss, weight_sum=weight, metrics=metrics))

    def _same(self, one: LossOutput, other: LossOutput) -> None:
        self._close(one.loss_sum, other.loss_sum)
        self._close(one.weight_sum, other.weight_sum)
        for name, number in one.metrics.items():
            self._close(number.double(), other.metrics[name].double())

    def _close(self, one: Tensor, other: Tensor) -> None:
        a, b = float(one.detach()), float(other.detach())
        assert abs(a - b) <= self.tolerance * max(1.0, abs(a)), f"{a} and {b} differ"
