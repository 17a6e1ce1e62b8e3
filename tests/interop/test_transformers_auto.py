"""What we export, opened by the Auto classes of transformers: the same numbers, head by head."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import (
    AutoModel,
    AutoModelForMultipleChoice,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    XLNetConfig,
    XLNetForMultipleChoice,
    XLNetForQuestionAnswering,
    XLNetForSequenceClassification,
    XLNetLMHeadModel,
    XLNetModel,
)

from anyorder.hf import export_hf, from_transformers_inputs, import_hf
from anyorder.losses import MultipleChoice, QuestionAnswering, SequenceClassification, SequenceSummary, find_token
from anyorder.models import Pretrained

from .transformers_models import ATOL, SMALL, logits_of, random_weights, saved


def exported(model: torch.nn.Module, tmp_path: Path) -> tuple[Pretrained, Path]:
    ours = import_hf(saved(model, tmp_path / "theirs"))
    export_hf(ours, tmp_path / "exported")
    return ours, tmp_path / "exported"


def rows_with_cls(rows: int = 4, length: int = 11) -> dict[str, Tensor]:
    """Left-padded rows that end in SEP and CLS, as XLNet's classification has them."""
    ids = torch.randint(9, 500, (rows, length), generator=torch.Generator().manual_seed(1))
    ids[:, -2], ids[:, -1] = 4, 3
    types = torch.zeros_like(ids)
    types[:, 5:-1], types[:, -1] = 1, 2
    mask = (torch.arange(length) >= torch.arange(rows)[:, None]).long()
    return {"input_ids": ids, "token_type_ids": types, "attention_mask": mask}


def summarise(ours: Pretrained, inputs: dict[str, Tensor]) -> Tensor:
    hidden = ours.backbone()(from_transformers_inputs(**inputs)).content
    summary = SequenceSummary(d_model=32)
    summary.load_state_dict(ours.part("heads.summary."))
    return summary.eval()(hidden, index=find_token(inputs["input_ids"], 3))


def test_auto_model(tmp_path: Path) -> None:
    ours, folder = exported(random_weights(XLNetModel(XLNetConfig(**SMALL, ff_activation="gelu_new"))), tmp_path)
    inputs = rows_with_cls()
    with torch.no_grad():
        theirs = AutoModel.from_pretrained(folder)(**inputs).last_hidden_state
        mine = ours.backbone()(from_transformers_inputs(**inputs)).content
    real = inputs["attention_mask"] > 0
    torch.testing.assert_close(mine[real], theirs[real], rtol=0, atol=ATOL)
    assert any("no language-model head" in note for note in ours.notes)


@pytest.mark.parametrize("classes", [1, 3])
def test_auto_model_for_sequence_classification(classes: int, tmp_path: Path) -> None:
    config = XLNetConfig(**SMALL, ff_activation="gelu_new", num_labels=classes)
    ours, folder = exported(random_weights(XLNetForSequenceClassification(config)), tmp_path)
    inputs = rows_with_cls()
    with torch.no_grad():
        theirs = AutoModelForSequenceClassification.from_pretrained(folder)
        expected = theirs(**inputs).logits
        if classes == 1:
            weights = ours.part("heads.regression.value.")
            mine = torch.nn.functional.linear(summarise(ours, inputs), **weights)
        else:
            head = SequenceClassification(d_model=32, classes=classes)
            head.load_state_dict(ours.part("heads.classification."))
            mine = head(summarise(ours, inputs)).logits
    assert theirs.config.num_labels == classes
    torch.testing.assert_close(mine, expected, rtol=0, atol=ATOL)


def test_auto_model_for_multiple_choice(tmp_path: Path) -> None:
    ours, folder = exported(
        random_weights(XLNetForMultipleChoice(XLNetConfig(**SMALL, ff_activation="gelu_new"))), tmp_path
    )
    inputs = rows_with_cls(rows=6)
    with torch.no_grad():
        head = MultipleChoice(d_model=32, choices=3)
        head.load_state_dict(ours.part("heads.choice."))
        mine = head(summarise(ours, inputs)).logits
        folded = {key: value.view(2, 3, -1) for key, value in inputs.items()}
        theirs = AutoModelForMultipleChoice.from_pretrained(folder)(**folded).logits
    torch.testing.assert_close(mine, theirs, rtol=0, atol=ATOL)


def test_question_answering(tmp_path: Path) -> None:
    """Transformers' Auto class for questions is a simpler head without the beam; the official one has its own class."""
    ours, folder = exported(
        random_weights(XLNetForQuestionAnswering(XLNetConfig(**SMALL, ff_activation="gelu_new"))), tmp_path
    )
    inputs = rows_with_cls()
    cls_index = find_token(inputs["input_ids"], 3)
    p_mask = (torch.arange(11) > 4).float().expand(4, -1).clone()
    p_mask[:, -1] = 0
    p_mask = torch.maximum(p_mask, 1 - inputs["attention_mask"])
    with torch.no_grad():
        model = XLNetForQuestionAnswering.from_pretrained(folder)
        theirs = model(**inputs, cls_index=cls_index, p_mask=p_mask)
        hidden = ours.backbone()(from_transformers_inputs(**inputs)).content
        head = QuestionAnswering(d_model=32)
        head.load_state_dict(ours.part("heads.answers."))
        beam = head.eval().search(hidden, allowed=p_mask == 0, cls_index=cls_index, starts=2, ends=1)
        torch.testing.assert_close(beam.start.exp(), theirs.start_top_log_probs[:, :2], rtol=0, atol=ATOL)
        assert torch.equal(beam.start_index, theirs.start_top_index[:, :2])
        torch.testing.assert_close(beam.unanswerable, theirs.cls_logits, rtol=0, atol=ATOL)
        simple = AutoModelForQuestionAnswering.from_pretrained(folder)
        real = inputs["attention_mask"] > 0
        torch.testing.assert_close(hidden[real], simple.transformer(**inputs)[0][real], rtol=0, atol=ATOL)


def test_a_model_without_segment_term_exports_with_one_of_zeros(tmp_path: Path) -> None:
    full = import_hf(saved(random_weights(XLNetLMHeadModel(XLNetConfig(**SMALL))), tmp_path / "theirs"))
    kept = {name: tensor for name, tensor in full.state.items() if "biases.1." not in name}
    plain = replace(full, architecture=replace(full.architecture, biases=("transformer_xl",)), state=kept)
    export_hf(plain, tmp_path / "exported")
    model = XLNetLMHeadModel.from_pretrained(tmp_path / "exported").eval()
    inputs = rows_with_cls()
    with torch.no_grad():
        theirs = model(**inputs).logits
        mine = logits_of(plain, from_transformers_inputs(**inputs), "content")
    real = inputs["attention_mask"] > 0
    torch.testing.assert_close(mine[real], theirs[real], rtol=0, atol=ATOL)
    weights = load_file(tmp_path / "exported" / "model.safetensors")
    assert not weights["transformer.layer.0.rel_attn.seg_embed"].any()
