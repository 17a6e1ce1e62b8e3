"""Heads for fine-tuning: where they read, what padding does, and their sums against slow twins."""

from __future__ import annotations

import math

import pytest
import torch

from anyorder.core import DataError, RecipeError
from anyorder.losses import (
    AttentionPooling,
    MultipleChoice,
    QuestionAnswering,
    SequenceClassification,
    SequenceRegression,
    SequenceSummary,
    find_token,
    first_true,
    last_true,
    pool_mean,
)

WIDTH, CLS = 6, 3


def padded(hidden: torch.Tensor, *, left: int, right: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The states with noise where padding is, and the mask of the real ones."""
    rows, length, width = hidden.shape
    noise = torch.full((rows, left + length + right, width), 7.0, dtype=hidden.dtype)
    real = torch.zeros(rows, left + length + right, dtype=torch.bool)
    noise[:, left : left + length], real[:, left : left + length] = hidden, True
    return noise, real


def test_a_token_is_found_wherever_padding_is() -> None:
    ids = torch.tensor([[5, 5, 9, 4, CLS], [9, 4, CLS, 5, 5], [CLS, 9, CLS, 4, 5]])
    assert find_token(ids, CLS).tolist() == [4, 2, 2]
    real = ids != 5
    assert first_true(real).tolist() == [2, 0, 0]
    assert last_true(real).tolist() == [4, 2, 3]
    with pytest.raises(DataError, match="row 1 has no token 3"):
        find_token(torch.tensor([[CLS], [9]]), CLS)


@pytest.mark.parametrize("pooling", ["token", "mean", "attention"])
def test_padding_does_not_change_a_summary(pooling: str) -> None:
    torch.manual_seed(0)
    hidden = torch.randn(3, 5, WIDTH, dtype=torch.float64)
    summary = SequenceSummary(d_model=WIDTH, pooling=pooling, n_head=2).double().eval()

    def read(left: int, right: int) -> torch.Tensor:
        states, real = padded(hidden, left=left, right=right)
        return summary(states, index=last_true(real), real=real)

    plain = read(0, 0)
    assert plain.abs().max() > 1e-3
    for left, right in [(4, 0), (0, 3), (2, 2)]:
        torch.testing.assert_close(read(left, right), plain, rtol=0, atol=1e-12)


def test_attention_pooling_equals_a_loop() -> None:
    torch.manual_seed(1)
    pool = AttentionPooling(d_model=WIDTH, n_head=2, d_head=4, init_std=1.0).double().eval().requires_grad_(False)
    hidden = torch.randn(3, 5, WIDTH, dtype=torch.float64)
    real = torch.tensor([[1, 1, 0, 1, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]]).bool()
    found = pool(hidden, real)
    for row in range(2):
        heads = []
        for head in range(2):
            part = slice(4 * head, 4 * head + 4)
            query = (pool.query.weight @ pool.summary_bias)[part]
            kept = hidden[row][real[row]]
            scores = [math.exp(float(query @ (pool.key.weight @ h)[part]) / 2) for h in kept]
            values = [(pool.value.weight @ h)[part] for h in kept]
            heads.append(sum(s * v for s, v in zip(scores, values, strict=True)) / sum(scores))
        torch.testing.assert_close(found[row], pool.norm(pool.out.weight @ torch.cat(heads)))
    assert torch.equal(found[2], pool.norm(torch.zeros(WIDTH, dtype=torch.float64)))


def test_a_row_of_padding_gives_no_nan() -> None:
    hidden = torch.full((1, 3, WIDTH), 2.0, requires_grad=True)
    nothing = torch.zeros(1, 3, dtype=torch.bool)
    for pooled in (pool_mean(hidden, nothing), AttentionPooling(d_model=WIDTH, n_head=2)(hidden, nothing)):
        pooled.sum().backward()
        assert pooled.isfinite().all()
        assert not hidden.grad.any()


def test_rows_without_weight_add_nothing() -> None:
    torch.manual_seed(2)
    summary = torch.randn(4, WIDTH)
    classes, labels = SequenceClassification(d_model=WIDTH, classes=3, init_std=1.0), torch.tensor([0, 1, 2, 0])
    whole = classes(summary, labels=labels)
    some = classes(summary, labels=labels, weight=torch.tensor([1.0, 0.0, 2.0, 0.0]))
    scores = whole.logits.detach().exp()
    each = [-float(torch.log(row[y] / row.sum())) for row, y in zip(scores, labels, strict=True)]
    assert float(whole.loss.loss_sum) == pytest.approx(sum(each), rel=1e-5)
    assert float(whole.loss.weight_sum) == 4
    assert float(whole.loss.metrics["accuracy"]) == sum(whole.logits.argmax(1) == labels)
    assert float(some.loss.loss_sum) == pytest.approx(each[0] + 2 * each[2], rel=1e-5)
    assert float(some.loss.weight_sum) == 3
    assert classes(summary).loss is None

    value = SequenceRegression(d_model=WIDTH, init_std=1.0)
    targets = torch.tensor([0.5, torch.inf, 1.0, 2.0])
    output = value(summary, labels=targets, weight=torch.tensor([1.0, 0.0, 1.0, 0.0]))
    expected = (output.logits[0] - 0.5) ** 2 + (output.logits[2] - 1.0) ** 2
    torch.testing.assert_close(output.loss.loss_sum, expected)


def test_choices_of_a_question_stand_together() -> None:
    torch.manual_seed(3)
    head = MultipleChoice(d_model=WIDTH, choices=3, init_std=1.0)
    summary = torch.randn(6, WIDTH)
    output = head(summary, labels=torch.tensor([2, 0]))
    for question in range(2):
        for choice in range(3):
            alone = summary[3 * question + choice] @ head.score.weight[0]
            torch.testing.assert_close(output.logits[question, choice], alone)
    shares = output.logits.softmax(1)
    assert float(output.loss.loss_sum) == pytest.approx(-math.log(shares[0, 2]) - math.log(shares[1, 0]), rel=1e-5)


def test_the_search_scores_ends_as_training_does_given_each_start() -> None:
    torch.manual_seed(4)
    head = QuestionAnswering(d_model=WIDTH, init_std=1.0).double().eval()
    hidden = torch.randn(2, 7, WIDTH, dtype=torch.float64)
    allowed = torch.ones(2, 7, dtype=torch.bool)
    allowed[0, 4:6] = allowed[1, :2] = False
    cls_index = torch.tensor([6, 6])
    beam = head.search(hidden, allowed=allowed, cls_index=cls_index, starts=3, ends=2)
    assert beam.end.shape == (2, 3, 2)
    for place in range(3):
        start = beam.start_index[:, place]
        given = head(hidden, allowed=allowed, cls_index=cls_index, start=start)
        torch.testing.assert_close(beam.start[:, place], given.start.gather(1, start[:, None])[:, 0])
        best = given.end.topk(2, dim=-1)
        torch.testing.assert_close(beam.end[:, place], best.values)
        assert torch.equal(beam.end_index[:, place], best.indices)
        torch.testing.assert_close(beam.unanswerable, given.unanswerable)
        assert bool(allowed.gather(1, start[:, None]).all())
        assert bool(allowed.gather(1, beam.end_index[:, place]).all())
    short = head.search(hidden, allowed=allowed, cls_index=cls_index, starts=99, ends=99)
    assert short.end.shape == (2, 7, 7)


def test_where_no_answer_may_lie_has_no_probability_and_no_influence() -> None:
    torch.manual_seed(5)
    head = QuestionAnswering(d_model=WIDTH, init_std=1.0).double().eval()
    hidden = torch.randn(1, 5, WIDTH, dtype=torch.float64)
    allowed = torch.tensor([[True, True, False, False, True]])
    arguments = {
        "allowed": allowed,
        "cls_index": torch.tensor([4]),
        "start": torch.tensor([0]),
        "end": torch.tensor([1]),
        "impossible": torch.tensor([0.0]),
    }
    scores = head(hidden, **arguments)
    assert float(scores.start.exp()[0, 2:4].sum()) == 0 == float(scores.end.exp()[0, 2:4].sum())
    hidden[:, 2:4] = 99.0
    again = head(hidden, **arguments)
    torch.testing.assert_close(again.loss.loss_sum, scores.loss.loss_sum)
    expected = -0.5 * (scores.start[0, 0] + scores.end[0, 1]) - 0.5 * torch.log(1 - scores.unanswerable.sigmoid()[0])
    torch.testing.assert_close(scores.loss.loss_sum, expected)


def test_half_precision_is_widened() -> None:
    torch.manual_seed(6)
    hidden = torch.randn(1, 4, WIDTH).bfloat16()
    head = QuestionAnswering(d_model=WIDTH).bfloat16()
    allowed, place = torch.tensor([[True, False, True, True]]), torch.tensor([3])
    scores = head(hidden, allowed=allowed, cls_index=place, start=place, end=place, impossible=torch.tensor([1.0]))
    assert scores.loss.loss_sum.dtype == torch.float32
    assert scores.loss.loss_sum.isfinite()
    classes = SequenceClassification(d_model=WIDTH, classes=2).bfloat16()
    assert classes(hidden[:, 0], labels=torch.tensor([1])).logits.dtype == torch.float32


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(RecipeError, match="needs a number of heads"):
        SequenceSummary(d_model=WIDTH, pooling="attention")
    with pytest.raises(RecipeError, match="allowed are"):
        SequenceSummary(d_model=WIDTH, pooling="last")
