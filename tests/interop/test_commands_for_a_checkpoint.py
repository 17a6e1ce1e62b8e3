"""A user with a checkpoint of transformers: import, score, fill, embed, go on training, export."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    XLNetConfig,
    XLNetLMHeadModel,
    XLNetTokenizer,
)

from anyorder.cli.blanks import encode_blanks, fill
from anyorder.cli.main import main
from anyorder.cli.open_model import open_model
from anyorder.cli.text_scores import score_text
from anyorder.data import Tokenizer
from anyorder.data.features import collate, encode_pair
from anyorder.hf import to_transformers_inputs
from anyorder.models import Pretrained
from anyorder.train.finetune import Classifier
from anyorder.train.recipe import load_recipe
from anyorder.train.run import load_run

from .prepared import prepared

ROOT = Path(__file__).parents[2]
SPIECE = ROOT / "tests" / "data" / "golden" / "spm" / "spiece.model"
TEXT = "The old woman paid two thousand, and went away."


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A folder that transformers made, and the model folder imported from it."""
    base = tmp_path_factory.mktemp("checkpoint")
    (base / "spiece.model").write_bytes(SPIECE.read_bytes())
    torch.manual_seed(0)
    config = XLNetConfig(vocab_size=500, d_model=32, n_layer=2, n_head=2, d_inner=48, ff_activation="gelu_new")
    model = XLNetLMHeadModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.3)
    model.save_pretrained(base / "theirs")
    XLNetTokenizer.from_pretrained(base).save_pretrained(base / "theirs")
    assert not (base / "theirs" / "spiece.model").exists()
    assert main(["import", "hf", str(base / "theirs"), "--out", str(base / "ours")]) == 0
    return base / "theirs", base / "ours"


def theirs_log_probabilities(model: XLNetLMHeadModel, ids: list[int], hidden: torch.Tensor) -> torch.Tensor:
    """``[L, V]``: for each place what transformers predicts, ``hidden[i, j]`` being 1 where it may not see ``j``."""
    length = len(ids)
    with torch.no_grad():
        logits = model(
            input_ids=torch.tensor([ids]),
            perm_mask=hidden[None].float(),
            target_mapping=torch.eye(length)[None],
            use_mems=False,
        ).logits
    return logits[0].log_softmax(-1)


def test_scores_are_those_of_transformers(folders: tuple[Path, Path]) -> None:
    theirs, ours = XLNetLMHeadModel.from_pretrained(folders[0]).eval(), open_model(folders[1], device="cpu")
    score = score_text(ours, TEXT)
    ids = [7, *ours.tokenizer.encode(TEXT)]  # after an end of document
    length = len(ids)
    forwards = theirs_log_probabilities(theirs, ids, torch.ones(length, length).triu())
    expected = [-float(forwards[i, ids[i]]) / math.log(2) for i in range(1, length)]
    assert score.left_to_right == pytest.approx(expected, abs=1e-4)

    for place in range(1, length):  # one token hidden from all, itself included
        hidden = torch.zeros(length, length)
        hidden[:, place] = 1
        around = theirs_log_probabilities(theirs, ids, hidden)
        assert score.pseudo[place - 1] == pytest.approx(-float(around[place, ids[place]]) / math.log(2), abs=1e-4)
    assert len(score.pieces) == length - 1


def test_what_it_writes_is_likeliest_to_transformers(
    folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """A prompt is known at once, and each token after it knows all before it."""
    theirs, ours = XLNetLMHeadModel.from_pretrained(folders[0]).eval(), open_model(folders[1], device="cpu")
    arguments = ["generate", str(folders[1]), "The old woman", "--tokens", "5", "--temperature", "0", "--json"]
    assert main(arguments) == 0
    written = json.loads(capsys.readouterr().out)

    ids = [7, *ours.tokenizer.encode("The old woman")]
    prompt, allowed = len(ids), torch.ones(500, dtype=torch.bool)
    allowed[[number for number in ours.objective.vocab.control if number != 7]] = False
    for _ in range(written["tokens"]):
        length = len(ids) + 1
        hidden = torch.ones(length, length).triu()
        hidden[:prompt, :prompt] = 0  # the prompt sees itself whole
        found = theirs_log_probabilities(theirs, [*ids, 0], hidden)[-1]
        ids.append(int(found.masked_fill(~allowed, -torch.inf).argmax()))
    assert written == {"text": ours.tokenizer.decode(ids[1:]), "tokens": 5}


def test_long_texts_are_scored_in_windows(folders: tuple[Path, Path]) -> None:
    model = open_model(folders[1], device="cpu")
    whole = score_text(model, TEXT, pseudo=False)
    count = len(whole.pieces)
    cut = score_text(model, TEXT, pseudo=False, length=13)  # 12 tokens and the end of document
    assert len(cut.left_to_right) == count > 12
    assert cut.left_to_right[:12] == pytest.approx(whole.left_to_right[:12], abs=1e-4)
    assert cut.left_to_right[12:] != pytest.approx(whole.left_to_right[12:], abs=1e-4)
    context = score_text(model, TEXT, context="A context.", pseudo=False)
    assert context.left_to_right != pytest.approx(whole.left_to_right, abs=1e-4)


def test_blanks_are_found_where_they_stand() -> None:
    tokenizer = Tokenizer.load(SPIECE)

    def shown(text: str) -> tuple[list[str], list[bool]]:
        ids, places, begins = encode_blanks(tokenizer, text)
        pieces = [tokenizer.all_pieces[number] for number in ids]
        assert [place for place, piece in enumerate(pieces) if piece == "<mask>"] == places
        return pieces, begins

    assert shown("The <mask> of") == (["▁The", "<mask>", "▁of"], [True])
    assert shown("<mask> of") == (["<mask>", "▁of"], [True])
    assert shown("The <mask>.") == (["▁The", "<mask>", "."], [True])
    assert shown("The <mask><mask> of") == (["▁The", "<mask>", "<mask>", "▁of"], [True, False])
    assert shown("a<eop> <mask>")[1] == [True]


def test_blanks_are_filled_by_the_chain_rule(folders: tuple[Path, Path]) -> None:
    """Both blanks by brute force over what transformers says."""
    theirs, ours = XLNetLMHeadModel.from_pretrained(folders[0]).eval(), open_model(folders[1], device="cpu")
    filled = fill(ours, "The <mask> woman<mask> paid.", top=3, beam=500)
    ids, (first, second), _ = encode_blanks(ours.tokenizer, "The <mask> woman<mask> paid.")
    ids, first, second = [7, *ids], first + 1, second + 1
    pieces = ours.tokenizer.all_pieces
    hidden = torch.zeros(len(ids), len(ids))
    hidden[:, second] = hidden[:, first] = 1
    alone = theirs_log_probabilities(theirs, ids, hidden)
    word = [n for n, piece in enumerate(pieces) if piece.startswith("▁") and piece != "▁"]
    rest = [n for n, piece in enumerate(pieces) if not piece.startswith("▁") and n >= 9]
    best = sorted(word, key=lambda number: -alone[first, number])[:3]
    assert [piece for piece, _ in filled.blanks[0]] == [pieces[number] for number in best]
    assert filled.blanks[0][0][1] == pytest.approx(float(alone[first, best[0]]), abs=1e-4)

    hidden[second, first] = 0  # the second blank knows the first
    joint = {}
    for number in word:
        given = theirs_log_probabilities(theirs, [*ids[:first], number, *ids[first + 1 :]], hidden)
        for other in rest:
            joint[pieces[number], pieces[other]] = float(alone[first, number] + given[second, other])
    expected = sorted(joint.items(), key=lambda item: -item[1])[:3]
    assert [chosen for _, chosen, _ in filled.joint] == [chosen for chosen, _ in expected]
    assert [score for *_, score in filled.joint] == pytest.approx([score for _, score in expected], abs=1e-4)


def test_embeddings_are_the_states_of_transformers(folders: tuple[Path, Path], tmp_path: Path) -> None:
    texts = ["The old woman.", "She paid two thousand, and went away."]
    for pool in ("mean", "cls", "none"):
        arguments = [part for text in texts for part in ("--text", text)]
        out = tmp_path / f"{pool}.safetensors"
        assert main(["embed", str(folders[1]), *arguments, "--pool", pool, "--out", str(out)]) == 0
    mean, cls, every = (load_file(tmp_path / f"{pool}.safetensors") for pool in ("mean", "cls", "none"))
    model = AutoModel.from_pretrained(folders[0]).eval()
    tokenizer = Tokenizer.load(SPIECE)
    for number, text in enumerate(texts):
        ids = [*tokenizer.encode(text), 4, 3]
        types = torch.tensor([[0] * (len(ids) - 1) + [2]])
        with torch.no_grad():
            states = model(input_ids=torch.tensor([ids]), token_type_ids=types).last_hidden_state[0]
        torch.testing.assert_close(mean["embeddings"][number], states[:-2].mean(0), rtol=0, atol=2e-5)
        torch.testing.assert_close(cls["embeddings"][number], states[-1], rtol=0, atol=2e-5)
        start, stop = every["offsets"][number : number + 2].tolist()
        torch.testing.assert_close(every["states"][start:stop], states, rtol=0, atol=2e-5)
        assert every["ids"][start:stop].tolist() == ids


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, folders: tuple[Path, Path]) -> Path:
    return prepared(tmp_path_factory.mktemp("corpus"), tokenizer=folders[1] / "spiece.model")


def settings(corpus: Path, *, steps: int) -> list[str]:
    values = (
        f"data.corpus={corpus}",
        f"train.steps={steps}",
        "train.batch_size=2",
        "train.eval_every=1",
        "train.eval_batches=1",
        "train.device=cpu",
        "tracking.type=none",
        "optimizer.lr=1e-5",
        "data.vocab_size=null",
    )
    return [part for value in values for part in ("--set", value)]


@pytest.mark.parametrize("objective", ["plm", "mlm", "clm"])
@pytest.mark.filterwarnings("ignore:model. the weights of", "ignore:.*data.vocab_size has no effect")
def test_any_objective_goes_on_from_an_import(
    objective: str, folders: tuple[Path, Path], corpus: Path, tmp_path: Path
) -> None:
    recipe = str(ROOT / "recipes" / "quickstart" / f"{objective}.yaml")
    run = tmp_path / objective
    command = ["train", recipe, "--from", str(folders[1]), "--out", str(run), *settings(corpus, steps=2)]
    assert main(command) == 0
    start = Pretrained.load(folders[1])
    _, data, trained = load_run(run)
    assert load_recipe(run / "recipe.yaml").sections["model"].init_from == folders[1].resolve()
    for name, value in trained.state_dict().items():
        torch.testing.assert_close(value, start.state[name], rtol=0, atol=1e-4, msg=name)  # two tiny steps away
    assert any(not torch.equal(value, start.state[name]) for name, value in trained.state_dict().items())

    assert main(["export", str(run), "--out", str(tmp_path / "exported")]) == 0
    card = (tmp_path / "exported" / "README.md").read_text()
    for said in ("| steps | 2 |", "| sources | own.txt |", "## Objective", "loss, nats a target, step 2"):
        assert said in card, card
    assert ("left to right" in card) == (objective == "clm")
    streams = trained.prepare(data.train.batch(0), seed=0, step=0)
    model = XLNetLMHeadModel.from_pretrained(tmp_path / "exported").eval()
    with torch.no_grad():
        losses = trained(streams, None).losses["loss"]
        theirs = model(**to_transformers_inputs(streams))
    torch.testing.assert_close(losses.loss_sum / losses.weight_sum, theirs.loss, rtol=0, atol=2e-5)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "exported")
    assert tokenizer(TEXT, add_special_tokens=False)["input_ids"] == data.corpus.tokenizer.encode(TEXT)


@pytest.mark.filterwarnings("ignore:model. the weights of", "ignore:.*data.vocab_size has no effect")
def test_a_corpus_of_another_tokenizer_is_refused(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own.txt").write_text("\f".join(f"{n}\n" + (TEXT + "\n") * 100 for n in range(6)))
    arguments = ["--out", str(tmp_path / "corpus"), "--vocab-size", "40", "--valid-fraction", "0.3"]
    assert main(["prepare", str(tmp_path / "own.txt"), *arguments]) == 0
    recipe = str(ROOT / "recipes" / "quickstart" / "plm.yaml")
    given = ["--from", str(folders[1]), "--out", str(tmp_path / "run")]
    assert main(["train", recipe, *given, *settings(tmp_path / "corpus", steps=1)]) == 2
    assert "prepared with another tokenizer" in capsys.readouterr().err
    assert main(["train", recipe, "--from", str(tmp_path / "nowhere"), "--out", str(tmp_path / "run")]) in (1, 2)
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


@pytest.mark.parametrize("pooling", ["token", "mean"])
@pytest.mark.filterwarnings("default:.*over padding")
def test_a_fine_tuned_model_exports_with_its_classes(
    pooling: str, folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"text": f"{word} woman {n}", "label": label} for n in range(8) for word, label in (("old", "o"), ("a", "n"))
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    (tmp_path / "task.yaml").write_text(
        f"task: {{train: rows.jsonl, dev: rows.jsonl, length: 16}}\nhead: {{pooling: {pooling}}}\n"
        "train: {epochs: 1, batch_size: 8, device: cpu}\n"
    )
    run = tmp_path / "tuned"
    assert main(["finetune", str(tmp_path / "task.yaml"), "--from", str(folders[1]), "--out", str(run)]) == 0
    assert main(["export", str(run), "--out", str(tmp_path / "exported")]) == 0
    assert ("over padding" in capsys.readouterr().err) == (pooling == "mean")
    theirs = AutoModelForSequenceClassification.from_pretrained(tmp_path / "exported").eval()
    assert theirs.config.id2label == {0: "n", 1: "o"}

    tuned = Pretrained.load(run / "model")
    ours = Classifier(tuned.backbone(), cls_id=3, classes=2, n_head=2, pooling=pooling).eval()
    ours.load_state_dict(dict(tuned.state))
    row = encode_pair(Tokenizer.load(SPIECE), "old woman 9", length=16)
    inputs = AutoTokenizer.from_pretrained(tmp_path / "exported")("old woman 9", return_tensors="pt")
    with torch.no_grad():
        mine, expected = ours(collate([row])).logits, theirs(**inputs, token_type_ids=_types(inputs)).logits
    torch.testing.assert_close(mine, expected, rtol=0, atol=2e-5)


def _types(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    types = torch.zeros_like(inputs["input_ids"])
    types[:, -1] = 2
    return types


def test_commands_print_what_they_found(folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", str(folders[1]), "--text", TEXT, "--json", "--no-pseudo"]) == 0
    line = json.loads(capsys.readouterr().out)
    assert len(line["left_to_right"]) == len(line["pieces"])
    assert main(["fill", str(folders[1]), "The <mask> woman.", "--top", "2", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["blanks"][0]) == 2
    assert main(["fill", str(folders[1]), "No blank."]) == 2
    assert "write <mask>" in capsys.readouterr().err
    assert main(["score", str(folders[0]), "--text", "x"]) == 2
    assert "anyorder import hf" in capsys.readouterr().err
    assert main(["score", str(folders[1])]) == 2
    assert main(["export", str(folders[1]), "--out", str(folders[1])]) == 2
