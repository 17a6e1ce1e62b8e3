"""Names, configuration and tokenizer of transformers, without running its model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from sentencepiece import SentencePieceProcessor
from transformers import AutoTokenizer, XLNetTokenizer

from anyorder.core import CheckpointError
from anyorder.data import Tokenizer
from anyorder.hf import export_hf, model_card
from anyorder.hf.config import from_config, to_config
from anyorder.hf.names import from_transformers, to_transformers
from anyorder.hf.sentencepiece_model import sentencepiece_model
from anyorder.models import Architecture, Pretrained

SPIECE = Path(__file__).parents[3] / "tests" / "data" / "golden" / "spm" / "spiece.model"
TEXTS = [
    "The old woman, who was thirty-two, paid 2,000 (or so) for it.",
    "Hello “world”—naïve café, ﬁne Å ½ …   two  spaces\tand\na tab",
    "``Quoted'' he said; don't!",
    "漢字 and émigré; £5 – €6.",
    "",
    " x",
]


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def model(**changes: object) -> Pretrained:
    sizes = {"n_layer": 2, "d_model": 12, "n_head": 3, "d_head": 4, "d_inner": 20}
    architecture = Architecture(vocab_size=500, **{**sizes, **changes})
    torch.manual_seed(0)
    state = {f"backbone.{name}": tensor for name, tensor in architecture.build().state_dict().items()}
    state["heads.loss.bias"] = torch.randn(500)
    return Pretrained(
        architecture=architecture,
        state=state,
        tokenizer=SPIECE.read_bytes(),
        tokenizer_settings={"style": "xlnet", "lower": False, "keep_accents": False},
        source="a test",
    )


def test_names_are_a_bijection() -> None:
    ours = model().state
    theirs = to_transformers(ours, n_layer=2, n_head=3)
    assert theirs["transformer.layer.1.rel_attn.o"].shape == (12, 3, 4)
    back, unknown = from_transformers(theirs)
    assert not unknown
    assert set(back) == set(ours)
    assert all(torch.equal(back[name], tensor) for name, tensor in ours.items())


def test_projections_are_used_as_transformers_uses_them() -> None:
    ours = model().state
    theirs = to_transformers(ours, n_layer=2, n_head=3)
    states = torch.randn(5, 12)
    heads = torch.einsum("id,dhk->ihk", states, theirs["transformer.layer.0.rel_attn.k"])
    torch.testing.assert_close(heads.flatten(1), states @ ours["backbone.layers.0.attention.key.weight"].T)
    out = torch.einsum("ihk,dhk->id", heads, theirs["transformer.layer.0.rel_attn.o"])
    torch.testing.assert_close(out, heads.flatten(1) @ ours["backbone.layers.0.attention.out.weight"].T)


@pytest.mark.parametrize("activation", ["gelu", "gelu_exact", "relu"])
@pytest.mark.parametrize("clamp_len", [None, 7])
def test_configuration_is_a_bijection(activation: str, clamp_len: int | None) -> None:
    architecture = replace(model().architecture, activation=activation, clamp_len=clamp_len, norm_eps=1e-9)
    again, _ = from_config(to_config(architecture), source="a test")
    assert again == architecture


def test_what_transformers_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="d_head is 5, but transformers' XLNet only has d_model / n_head"):
        export_hf(model(d_head=5), tmp_path / "out")
    with pytest.raises(CheckpointError, match="score terms segment"):
        export_hf(model(biases=("segment",)), tmp_path / "out")
    assert not list(tmp_path.iterdir())
    config = to_config(model().architecture)
    for change, message in (
        ({"tie_word_embeddings": False}, "not tied"),
        ({"ff_activation": "swish"}, "'swish' is unknown"),
        ({"vocab_size": None}, "vocab_size is missing"),
    ):
        with pytest.raises(CheckpointError, match=message):
            from_config(config | change, source="a test")


def test_nothing_is_overwritten_or_left_half_done(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    for write in (lambda: export_hf(model(), tmp_path / "out"), lambda: model().save(tmp_path / "out")):
        with pytest.raises(CheckpointError, match="exists already"):
            write()
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "mine"]


def test_an_altered_model_folder_is_refused(tmp_path: Path) -> None:
    model().save(tmp_path / "ours")
    weights = tmp_path / "ours" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(CheckpointError, match="altered or cut short"):
        Pretrained.load(tmp_path / "ours")
    weights.unlink()
    with pytest.raises(CheckpointError, match="is missing"):
        Pretrained.load(tmp_path / "ours")
    broken = {name: tensor for name, tensor in model().state.items() if "query_embedding" not in name}
    with pytest.raises(CheckpointError, match="query_embedding is missing"):
        replace(model(), state=broken)


@pytest.mark.parametrize("lower", [False, True])
def test_the_exported_tokenizer_is_ours(lower: bool, tmp_path: Path) -> None:
    ours = Tokenizer.load(SPIECE, lower=lower)
    exported = replace(model(), tokenizer_settings=ours.settings)
    export_hf(exported, tmp_path / "out")
    theirs = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert isinstance(theirs, XLNetTokenizer)
    texts = [*TEXTS, *(Path(__file__).read_text().replace("<", "").split("\n"))]
    for text in texts:
        assert theirs(text, add_special_tokens=False)["input_ids"] == ours.encode(text), text
    vocab = ours.vocab
    assert (theirs.cls_token_id, theirs.sep_token_id, theirs.pad_token_id) == (vocab.cls, vocab.sep, vocab.pad)
    assert theirs.mask_token_id == vocab.mask
    assert theirs("a b")["input_ids"] == [*ours.encode("a b"), vocab.sep, vocab.cls]
    assert len(theirs) == vocab.size


def test_a_sentencepiece_model_is_rebuilt_from_what_transformers_saves(tmp_path: Path) -> None:
    (tmp_path / "spiece.model").write_bytes(SPIECE.read_bytes())
    XLNetTokenizer.from_pretrained(tmp_path).save_pretrained(tmp_path / "saved")
    saved = tmp_path / "saved" / "tokenizer.json"
    rebuilt = sentencepiece_model(saved.read_bytes(), name="saved")
    before, after = (SentencePieceProcessor(model_proto=data) for data in (SPIECE.read_bytes(), rebuilt))
    for number in range(500):
        assert before.id_to_piece(number) == after.id_to_piece(number)
        assert before.get_score(number) == after.get_score(number)
        kinds = [(p.is_control(number), p.is_unknown(number), p.is_unused(number)) for p in (before, after)]
        assert kinds[0] == kinds[1]
    ours, again = Tokenizer(SPIECE.read_bytes()), Tokenizer(rebuilt)
    assert ours.vocab == again.vocab
    for text in [*TEXTS, *Path(__file__).read_text().split("\n")]:
        assert ours.encode(text) == again.encode(text)

    tree = json.loads(saved.read_text())
    tree["model"]["type"] = "BPE"
    with pytest.raises(CheckpointError, match="BPE"):
        sentencepiece_model(json.dumps(tree).encode(), name="saved")
    with pytest.raises(CheckpointError, match="damaged"):
        sentencepiece_model(b"{", name="saved")


def test_card_says_what_the_run_says() -> None:
    recipe = {
        "data": {"length": 128},
        "objective": {"order": {"type": "permutation", "perm_size": 64}, "masks": {"type": "two_stream"}},
        "train": {"batch_size": 16},
        "optimizer": {"type": "adamw", "lr": 2e-3},
        "seed": 7,
    }
    records = [
        {"step": 1, "tokens": 1000, "targets": 100, "seconds": 1.0, "valid/loss": 5.0},
        {"step": 2, "tokens": 1000, "targets": 120, "seconds": 2.0, "valid/loss": 4.25},
        {"step": 3, "tokens": 1000, "targets": 110, "seconds": 2.0},
    ]
    card = model_card(
        "plm",
        architecture=model().architecture,
        recipe=recipe,
        data={"counts": {"tokens": 123456}, "sources": [{"name": "prose.txt"}]},
        records=records,
        results={"cloze, bits a token": "3.21"},
    )
    assert card.startswith("---\nlibrary_name: transformers\ntags: [xlnet, anyorder, permutation]\n---")
    for row in (
        "| order | permutation (perm_size 64) |",
        "| tokens | 123,456 |",
        "| sources | prose.txt |",
        "| steps | 3 |",
        "| tokens read | 3,000 |",
        "| targets predicted | 330 |",
        "| loss, nats a target, step 2 | 4.2500 |",
        "| cloze, bits a token | 3.21 |",
        "| seed | 7 |",
    ):
        assert row in card, row
    assert "Results" not in model_card("bare", architecture=model().architecture)
