"""Fine-tuning: from a run's folder and labelled texts to accuracy, weights and a log."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from anyorder.core import CheckpointError, DataError, Dropout, RecipeError, Visibility
from anyorder.data import prepare
from anyorder.data.features import collate, encode_pair
from anyorder.train.assemble import assemble, open_text
from anyorder.train.checkpoint import save
from anyorder.train.finetune import (
    Classifier,
    Start,
    encoder_streams,
    finetune,
    load_finetuning,
    read_examples,
)
from anyorder.train.finetune.tuner import Labelled, shuffled
from anyorder.train.fit_result import CHECKPOINTS
from anyorder.train.optimizer import AdamW
from anyorder.train.recipe import load_recipe
from anyorder.train.run import keep_recipe

WORDS = [
    "the",
    "cat",
    "dog",
    "sat",
    "ran",
    "under",
    "house",
    "tree",
    "and",
    "then",
    "was",
    "very",
    "bright",
    "old",
    "new",
]
CPU = torch.device("cpu")
LABELS = {"good": "praise", "bad": "blame"}


def sentences(count: int, *, seed: int) -> list[dict[str, str]]:
    """Random words, one of them good or bad, which is the label."""
    draw = random.Random(seed)
    made = []
    for _ in range(count):
        words = draw.choices(WORDS, k=draw.randint(3, 12))
        telling = draw.choice(list(LABELS))
        words.insert(draw.randint(0, len(words)), telling)
        made.append({"text": " ".join(words), "label": LABELS[telling]})
    return made


def write(path: Path, rows: list[dict[str, str]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with labelled texts and ``run``, a pretrained run of no training at all."""
    folder = tmp_path_factory.mktemp("finetune")
    write(folder / "train.jsonl", sentences(256, seed=1))
    write(folder / "dev.jsonl", sentences(60, seed=2))
    documents = ["\n\n".join(row["text"] for row in sentences(300, seed=seed)) for seed in range(3, 9)]
    (folder / "text.txt").write_text("\n\f\n".join(documents), encoding="utf-8")
    prepare(folder / "text.txt", folder / "corpus", vocab_size=50, workers=1, valid_documents=1, progress=False)
    (folder / "plm.yaml").write_text(
        """
name: plm
data: {corpus: corpus, length: 32}
model: {n_layer: 2, d_model: 32, n_head: 2, d_inner: 64, dropout: 0.0, biases: [transformer_xl, segment]}
objective:
  order: {type: permutation, targets: {type: last_fraction, k: 6}}
  masks: two_stream
  loss: cross_entropy
optimizer: {type: adamw}
train: {steps: 1, batch_size: 4}
tracking: none
""",
        encoding="utf-8",
    )
    recipe = load_recipe(folder / "plm.yaml")
    torch.manual_seed(0)
    objective = assemble(recipe, vocab=open_text(recipe).vocab)
    keep_recipe(recipe, folder / "run")
    optimizer = AdamW().build(objective)
    save(folder / "run" / CHECKPOINTS, step=1, model=objective, optimizer=optimizer, memory=None, state={}, keep=1)
    (folder / "tune.yaml").write_text(
        """
task: {train: train.jsonl, dev: dev.jsonl, length: 24}
optimizer: {lr: 0.01, decay: 0.9}
schedule: {warmup: 0.1}
train: {epochs: 3, batch_size: 16, log_every: 10, dropout: 0.0, device: cpu}
head: {dropout: 0.0}
""",
        encoding="utf-8",
    )
    return folder


def test_a_simple_task_is_learnt_and_the_results_can_be_had_again(home: Path, tmp_path: Path) -> None:
    recipe = load_finetuning(home / "tune.yaml")
    lines: list[str] = []
    first = finetune(recipe, pretrained=home / "run", folder=tmp_path / "one", note=lines.append)
    assert first.accuracy > 0.9
    assert (first.train, first.dev, first.steps) == (256, 60, 48)
    records = [json.loads(line) for line in (tmp_path / "one/metrics.jsonl").read_text().splitlines()]
    assert [r["dev/accuracy"] for r in records if "dev/accuracy" in r][-1] == first.accuracy
    assert len(lines) == len(records) == 4 + 3
    assert json.loads((tmp_path / "one/labels.json").read_text()) == ["blame", "praise"]

    again = load_finetuning(tmp_path / "one/recipe.yaml")
    assert again.tree == recipe.tree
    second = finetune(again, pretrained=home / "run", folder=tmp_path / "two")
    assert second == first
    ours, theirs = (load_file(tmp_path / name / "model/model.safetensors") for name in ("one", "two"))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours | theirs)

    start = Start.load(tmp_path / "one/model")  # which can be gone on from, or exported
    assert start.source == "the run 'plm' after 1 steps, fine-tuned on train.jsonl"
    assert start.architecture == Start.load(home / "run").architecture
    assert all(torch.equal(value, ours[f"backbone.{name}"]) for name, value in start.weights.items())
    model = Classifier(start.backbone(dropout=0.0, device=CPU), cls_id=start.tokenizer.vocab.cls, classes=2, n_head=2)
    model.load_state_dict(ours)
    rows = [encode_pair(start.tokenizer, f"the cat was very {word}", length=24) for word in LABELS]
    assert model.eval()(collate(rows)).logits.argmax(1).tolist() == [1, 0]


@pytest.mark.parametrize("pooling", ["token", "mean", "attention"])
def test_scores_do_not_depend_on_padding(home: Path, pooling: str) -> None:
    start = Start.load(home / "run")
    backbone, cls_id = start.backbone(dropout=0.0, device=CPU), start.tokenizer.vocab.cls
    model = Classifier(backbone, cls_id=cls_id, classes=3, n_head=2, pooling=pooling).double().eval()
    texts = ["the cat sat", "a very old dog ran under the new house"]
    together = model(collate([encode_pair(start.tokenizer, text, "it was good", length=40) for text in texts])).logits
    for row, text in enumerate(texts):
        alone = model(collate([encode_pair(start.tokenizer, text, "it was good", length=60)])).logits[0]
        torch.testing.assert_close(together[row], alone, rtol=0, atol=1e-10)
    assert (together[0] - together[1]).abs().max() > 1e-6


def test_every_token_sees_every_other_and_no_padding(home: Path) -> None:
    tokenizer = Start.load(home / "run").tokenizer
    batch = collate([encode_pair(tokenizer, text, length=20) for text in ("the cat", "the cat sat on it")])
    content = encoder_streams(batch).content
    seen = Visibility.of(content, content).dense()
    real = ~batch.padding
    assert torch.equal(seen, real[:, :, None] & real[:, None, :])


def test_dropout_of_the_backbone_is_the_fine_tuning_recipe_s(home: Path) -> None:
    backbone = Start.load(home / "run").backbone(dropout=0.25, device=CPU)
    assert {m.p for m in backbone.modules() if isinstance(m, Dropout)} == {0.25}
    assert {layer.attention.dropout for layer in backbone.layers} == {0.25}


def test_batches_hold_every_example_once(home: Path) -> None:
    tokenizer = Start.load(home / "run").tokenizer
    rows = [encode_pair(tokenizer, "cat " * (1 + i % 7), length=30) for i in range(45)]
    data = Labelled(rows=rows, labels=[0] * 45)
    first, second = (list(shuffled(data, 4, generator=torch.Generator().manual_seed(seed))) for seed in (1, 2))
    for batches in (first, second):
        assert sorted(i for batch in batches for i in batch) == list(range(45))
        assert max(map(len, batches)) == 4
    assert first != second


def test_labelled_texts_are_read_from_every_kind_of_file(tmp_path: Path) -> None:
    rows = [{"a": 'x, "y"', "b": "z", "y": 1}, {"a": "ü\u2028q", "b": "w", "y": 0}]
    write(tmp_path / "x.jsonl", rows)
    (tmp_path / "x.jsonl.gz").write_bytes(gzip.compress((tmp_path / "x.jsonl").read_bytes()))
    (tmp_path / "x.csv").write_text('y,a,b\n1,"x, ""y""",z\n0,ü\u2028q,w\n', encoding="utf-8-sig")
    (tmp_path / "x.tsv").write_text('y\ta\tb\n1\t"x, ""y"""\tz\n0\tü\u2028q\tw\n', encoding="utf-8")
    found = [read_examples(path, text="a", pair="b", label="y") for path in sorted(tmp_path.iterdir())]
    assert len(found) == 4
    assert all(examples == found[0] for examples in found)
    assert [(e.text, e.pair, e.label) for e in found[0]] == [('x, "y"', "z", "1"), ("ü\u2028q", "w", "0")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.txt", "a", "come as .jsonl"),
        ("x.jsonl", "", "no example"),
        ("x.jsonl", "{\n", "x.jsonl:1: not JSON"),
        ("x.jsonl", "[]\n", "x.jsonl:1: an object"),
        ("x.jsonl", '\n{"txet": "a", "label": 1}\n', "x.jsonl:2: no field 'text'.*did you mean 'txet'"),
        ("x.jsonl", '{"text": 3, "label": 1}\n', "should be a text"),
        ("x.csv", "text,label\na\n", "x.csv:2: no field 'label'"),
        ("x.jsonl.gz", "not gzip", "cannot be read"),
    ],
)
def test_files_that_are_wrong_are_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        read_examples(tmp_path / name, text="text", label="label")


def test_what_a_user_can_mend_is_said_before_training(home: Path, tmp_path: Path) -> None:
    def tune(*settings: str, pretrained: Path = home / "run", folder: Path = tmp_path / "out") -> None:
        finetune(load_finetuning(home / "tune.yaml", overrides=settings), pretrained=pretrained, folder=folder)

    with pytest.raises(RecipeError, match=r"head\.poling: unknown key 'poling'.*did you mean 'pooling'"):
        tune("head.poling=mean")
    with pytest.raises(RecipeError, match=r"unknown key 'sede'.*did you mean 'seed'"):
        tune("sede=3")
    with pytest.raises(RecipeError, match=r"train\.epochs"):
        tune("train.epochs=0")
    with pytest.raises(CheckpointError, match="neither a run's folder"):
        tune(pretrained=home)
    other = write(tmp_path / "other.jsonl", [{"text": "cat", "label": "neither"}])
    with pytest.raises(DataError, match="the label 'neither' is not one of the training file's"):
        tune(f"task.dev={other}")
    with pytest.raises(DataError, match="nothing to tell apart"):
        tune(f"task.train={other}")
    assert not (tmp_path / "out").exists()
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "mine.txt").write_text("x")
    with pytest.raises(CheckpointError, match="is not empty"):
        tune(folder=kept)
    assert [path.name for path in kept.iterdir()] == ["mine.txt"]
