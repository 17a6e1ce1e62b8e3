"""From an official checkpoint through fine-tuning to transformers, whose classifier gives our scores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from anyorder.data.features import collate, encode_pair
from anyorder.hf.export_hf import export_hf
from anyorder.hf.import_tf import import_tf
from anyorder.models import Pretrained
from anyorder.train.finetune import Classifier, Start, finetune, load_finetuning

TESTS = Path(__file__).parents[1]
CHECKPOINT = TESTS / "data/golden/ckpt_untied"
PIECES = TESTS.parent / "packages/anyorder-data/tests/data/spiece.model"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of transformers are not ours to mend
def test_a_fine_tuned_official_checkpoint_scores_the_same_in_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    import_tf(CHECKPOINT, tokenizer=PIECES).save(tmp_path / "imported")
    lines = [{"text": f"this is {word}", "label": label} for word, label in (("good", "yes"), ("poor", "no"))] * 8
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "recipe.yaml").write_text(
        "{task: {train: data.jsonl, dev: data.jsonl, length: 16}, train: {epochs: 1, batch_size: 4, device: cpu}}"
    )
    finetune(load_finetuning(tmp_path / "recipe.yaml"), pretrained=tmp_path / "imported", folder=tmp_path / "tuned")

    model = Pretrained.load(tmp_path / "tuned/model")
    labels = json.loads((tmp_path / "tuned/labels.json").read_text())
    export_hf(model, tmp_path / "exported", labels=labels)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "exported").eval()
    assert theirs.config.id2label == {0: "no", 1: "yes"}

    start = Start.load(tmp_path / "tuned/model")
    backbone = start.backbone(dropout=0.0, device=torch.device("cpu"))
    ours = Classifier(backbone, cls_id=start.tokenizer.vocab.cls, classes=2, n_head=start.architecture.n_head)
    ours.load_state_dict(dict(model.state))
    texts = [("this is good", None), ("a longer text than the other", "and a pair")]
    batch = collate([encode_pair(start.tokenizer, *text, length=32) for text in texts])
    assert batch.padding.any()
    with torch.no_grad():
        expected = theirs(batch.ids, attention_mask=(~batch.padding).float(), token_type_ids=batch.segment).logits
        torch.testing.assert_close(ours.eval()(batch).logits, expected, rtol=0, atol=1e-6)
    assert (expected[0] - expected[1]).abs().max() > 1e-4
