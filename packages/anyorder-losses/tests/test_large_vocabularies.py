"""Sampled and adaptive softmax against the full one, and against torch's."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from anyorder.core import LossOutput, Readout, RecipeError
from anyorder.losses import AdaptiveSoftmax, CrossEntropy, SampledSoftmax

VOCAB, WIDTH, ROWS, PLACES = 60, 6, 3, 7


def states() -> tuple[Tensor, Readout, Tensor]:
    draw = torch.Generator().manual_seed(3)
    hidden = torch.randn(ROWS, PLACES, WIDTH, generator=draw, dtype=torch.float64).requires_grad_()
    embedding = torch.randn(VOCAB, WIDTH, generator=draw, dtype=torch.float64).requires_grad_()
    labels = torch.randint(VOCAB, (ROWS, PLACES), generator=draw)
    weight = torch.rand(ROWS, PLACES, generator=draw, dtype=torch.float64) + 0.1
    weight[1, 2:] = 0.0
    place = torch.arange(PLACES).expand(ROWS, -1)
    return hidden, Readout(stream="content", index=place, labels=labels, weight=weight), embedding


def noisy(head: nn.Module) -> nn.Module:
    draw = torch.Generator().manual_seed(8)
    for parameter in head.double().parameters():
        with torch.no_grad():
            parameter.copy_(torch.randn(parameter.shape, generator=draw, dtype=torch.float64) * 0.4)
    return head


def gradients(head: nn.Module, hidden: Tensor, readout: Readout, embedding: Tensor) -> list[Tensor]:
    wanted = [hidden, embedding, *head.parameters()]
    return list(torch.autograd.grad(head(hidden, readout, embedding=embedding).loss_sum, wanted))


def same(one: LossOutput, other: LossOutput, weight: Tensor) -> None:
    torch.testing.assert_close(one.loss_sum, other.loss_sum)
    torch.testing.assert_close(one.weight_sum, other.weight_sum)
    assert one.per_target is not None
    assert other.per_target is not None
    torch.testing.assert_close(one.per_target[weight > 0], other.per_target[weight > 0])


@pytest.mark.parametrize("sampler", ["uniform", "log_uniform"])
@pytest.mark.parametrize(("candidates", "training"), [(VOCAB, True), (4, False)])
def test_sampling_every_piece_or_measuring_is_the_full_softmax(sampler: str, candidates: int, training: bool) -> None:
    sampled = noisy(SampledSoftmax(vocab_size=VOCAB, candidates=candidates, sampler=sampler))  # type: ignore[arg-type]
    full = noisy(CrossEntropy(vocab_size=VOCAB, logits_at_once=None))
    sampled.train(training)
    case = states()
    hidden, readout, embedding = case
    same(sampled(hidden, readout, embedding=embedding), full(hidden, readout, embedding=embedding), readout.weight)
    for one, other in zip(gradients(sampled, *case), gradients(full, *case), strict=True):
        torch.testing.assert_close(one, other)


def naive(head: SampledSoftmax, case: tuple[Tensor, Readout, Tensor], drawn: list[int], log_chance: Tensor) -> Tensor:
    """One prediction and one candidate at a time."""
    hidden, readout, embedding = case
    total = hidden.new_zeros(())
    for state, label, weight in zip(
        hidden.flatten(0, 1), readout.labels.flatten().tolist(), readout.weight.flatten(), strict=True
    ):
        pieces = [label, *(piece for piece in drawn if piece != label)]
        scores = [state @ embedding[piece] + head.bias[piece] - log_chance[piece] for piece in pieces]
        total = total + weight * (torch.stack(scores).logsumexp(0) - scores[0])
    return total


@pytest.mark.parametrize("sampler", ["uniform", "log_uniform"])
def test_sampled_softmax_equals_its_naive_twin(sampler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    head = noisy(SampledSoftmax(vocab_size=VOCAB, candidates=12, sampler=sampler))  # type: ignore[arg-type]
    assert isinstance(head, SampledSoftmax)
    hidden, readout, embedding = case = states()
    torch.manual_seed(5)
    drawn, log_chance = head._draw()
    assert len(set(drawn.tolist())) == 12
    assert set(drawn.tolist()) & set(readout.labels.flatten().tolist()), "no label is hit by accident"
    monkeypatch.setattr(head, "_draw", lambda: (drawn, log_chance))
    wanted = [hidden, embedding, head.bias]
    fast = head(hidden, readout, embedding=embedding).loss_sum
    slow = naive(head, case, drawn.tolist(), log_chance)
    torch.testing.assert_close(fast, slow)
    for one, other in zip(torch.autograd.grad(fast, wanted), torch.autograd.grad(slow, wanted), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("sampler", ["uniform", "log_uniform"])
def test_weights_of_candidates_are_unbiased(sampler: str) -> None:
    """The sum over candidates of ``value / chance`` has the whole vocabulary's sum for its mean."""
    head = SampledSoftmax(vocab_size=VOCAB, candidates=15, sampler=sampler)  # type: ignore[arg-type]
    values = torch.rand(VOCAB, generator=torch.Generator().manual_seed(1)) + 0.5
    torch.manual_seed(0)
    sums = []
    for _ in range(4000):
        drawn, log_chance = head._draw()
        sums.append((values[drawn] / log_chance[drawn].exp()).sum())
    found = torch.stack(sums).double()
    error = float(found.std()) / len(sums) ** 0.5
    assert abs(float(found.mean()) - float(values.sum())) < 4 * error
    assert error < 0.02 * float(values.sum())


def test_frequent_pieces_are_drawn_as_often_as_the_log_uniform_law_says() -> None:
    head = SampledSoftmax(vocab_size=VOCAB, candidates=1)
    torch.manual_seed(0)
    counts = torch.bincount(torch.cat([head._draw()[0] for _ in range(6000)]), minlength=VOCAB)
    rank = torch.arange(VOCAB, dtype=torch.float64)
    law = ((rank + 2) / (rank + 1)).log() / torch.tensor(VOCAB + 1.0).log()
    torch.testing.assert_close(law.sum(), torch.ones((), dtype=torch.float64))
    chi_square = float(((counts - 6000 * law) ** 2 / (6000 * law)).sum())
    assert chi_square < 59 + 4 * (2 * 59) ** 0.5


def test_the_mean_gradient_approaches_the_full_one_with_more_candidates() -> None:
    case = states()
    full = gradients(noisy(CrossEntropy(vocab_size=VOCAB, logits_at_once=None)), *case)
    errors = []
    for candidates in (6, 20, 50):
        head = noisy(SampledSoftmax(vocab_size=VOCAB, candidates=candidates))
        torch.manual_seed(0)
        found = [gradients(head, *case) for _ in range(300)]
        mean = [torch.stack(parts).mean(dim=0) for parts in zip(*found, strict=True)]
        errors.append([float((one - other).norm() / other.norm()) for one, other in zip(mean, full, strict=True)])
    for few, some, many in zip(*errors, strict=True):
        assert few > some > many
        assert many < 0.05


def test_adaptive_softmax_is_a_distribution_and_its_loss_reads_it() -> None:
    head = noisy(AdaptiveSoftmax(vocab_size=VOCAB, d_model=WIDTH, cutoffs=[10, 25, 40]))
    hidden, readout, embedding = states()
    log_probabilities = head.logits(hidden, embedding=embedding)  # type: ignore[operator]
    assert log_probabilities.shape == (ROWS, PLACES, VOCAB)
    torch.testing.assert_close(log_probabilities.exp().sum(-1), torch.ones(ROWS, PLACES, dtype=torch.float64))
    torch.testing.assert_close(log_probabilities.log_softmax(-1), log_probabilities)
    labels = torch.arange(VOCAB)[None]
    state = hidden[:1, :1].expand(1, VOCAB, -1)
    every = Readout(stream="content", index=labels, labels=labels, weight=torch.ones(1, VOCAB, dtype=torch.float64))
    out = head(state, every, embedding=embedding)
    torch.testing.assert_close(out.per_target[0], -log_probabilities[0, 0].detach())
    twin = -log_probabilities.gather(-1, readout.labels[..., None])[..., 0]
    slow = (twin * readout.weight).sum()
    wanted = [hidden, embedding, *head.parameters()]
    for one, other in zip(gradients(head, hidden, readout, embedding), torch.autograd.grad(slow, wanted), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("cutoffs", [[10], [10, 25, 40], [59]])
def test_adaptive_softmax_equals_torchs_without_projections(cutoffs: list[int]) -> None:
    head = noisy(AdaptiveSoftmax(vocab_size=VOCAB, d_model=WIDTH, cutoffs=cutoffs))
    assert isinstance(head, AdaptiveSoftmax)
    hidden, readout, embedding = states()
    theirs = nn.AdaptiveLogSoftmaxWithLoss(WIDTH, VOCAB, cutoffs, div_value=1.0, head_bias=True).double()
    first = cutoffs[0]
    with torch.no_grad():
        head.token_bias[first:] = 0.0  # torch's clusters have none
        theirs.head.weight.copy_(torch.cat([embedding[:first], head.cluster.weight]))
        theirs.head.bias.copy_(torch.cat([head.token_bias[:first], head.cluster.bias]))
        for (project, score), begin, end in zip(theirs.tail, cutoffs, [*cutoffs[1:], VOCAB], strict=True):
            project.weight.copy_(torch.eye(WIDTH))
            score.weight.copy_(embedding[begin:end])
    flat = hidden.flatten(0, 1)
    ours = head.logits(flat, embedding=embedding)
    torch.testing.assert_close(ours, theirs.log_prob(flat))
    out = head(hidden, readout, embedding=embedding)
    found = theirs(flat, readout.labels.flatten())
    torch.testing.assert_close(out.per_target.flatten(), -found.output.detach())
    (one,) = torch.autograd.grad(out.loss_sum, [hidden], retain_graph=True)
    (other,) = torch.autograd.grad(-(found.output * readout.weight.flatten()).sum(), [hidden], retain_graph=True)
    torch.testing.assert_close(one, other)


def test_an_untrained_adaptive_softmax_is_uniform() -> None:
    head = AdaptiveSoftmax(vocab_size=VOCAB, d_model=WIDTH, cutoffs=[10, 25])
    found = head.logits(torch.zeros(WIDTH), embedding=torch.randn(VOCAB, WIDTH))
    torch.testing.assert_close(found.exp(), torch.full((VOCAB,), 1 / VOCAB))


@pytest.mark.parametrize("head", [AdaptiveSoftmax, SampledSoftmax])
def test_half_precision_is_widened_before_a_softmax(head: type[nn.Module]) -> None:
    options = {"d_model": WIDTH, "cutoffs": [10]} if head is AdaptiveSoftmax else {"candidates": 20}
    one = head(vocab_size=VOCAB, **options).bfloat16()
    hidden, readout, embedding = states()
    out = one(hidden.bfloat16(), readout, embedding=embedding.bfloat16())
    assert out.per_target.dtype == torch.float32


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: AdaptiveSoftmax(vocab_size=60, d_model=6, cutoffs=[]), r"cutoffs is \[\]; .* from 1 to 59"),
        (lambda: AdaptiveSoftmax(vocab_size=60, d_model=6, cutoffs=[20, 20]), r"cutoffs is \[20, 20\]; .* ascend"),
        (lambda: AdaptiveSoftmax(vocab_size=60, d_model=6, cutoffs=[0]), "cutoffs"),
        (lambda: AdaptiveSoftmax(vocab_size=60, d_model=6, cutoffs=[60]), "cutoffs"),
        (lambda: SampledSoftmax(vocab_size=60, candidates=61), "candidates is 61; it must be from 1 to .* 60"),
        (lambda: SampledSoftmax(vocab_size=60, candidates=0), "candidates is 0"),
        (lambda: SampledSoftmax(vocab_size=60, candidates=9, sampler="zipf"), "sampler is 'zipf'"),
    ],
)
def test_bad_arguments_are_refused(make: object, problem: str) -> None:
    with pytest.raises(RecipeError, match=problem):
        make()  # type: ignore[operator]
