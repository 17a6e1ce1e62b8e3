"""Our model and transformers' with the same weights: the same numbers, whichever made them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import XLNetConfig, XLNetLMHeadModel

from anyorder.attention import Naive, Sdpa
from anyorder.core import QUERY_ID, CheckpointError, Draws, IncompatiblePartsError, Plan, Slots, Streams, TokenBatch
from anyorder.hf import export_hf, from_transformers_inputs, import_hf, to_transformers_inputs
from anyorder.masks import InPlace, Shift, TwoStream
from anyorder.memory import SegmentMemory
from anyorder.models import Pretrained

from .transformers_models import ATOL, SMALL, VOCAB, head_of, logits_of, random_weights, saved


def random_case(config: XLNetConfig, *, rows: int, length: int, targets: int, seed: int) -> dict[str, Tensor]:
    """Inputs of transformers: a random order with some context, places to predict, segments and left padding."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(9, config.vocab_size, (rows, length), generator=generator)
    order = torch.rand(rows, length, generator=generator).argsort(dim=1)
    rank = order.argsort(dim=1)
    context = torch.randint(2, length - targets, (rows, 1), generator=generator)
    rank = (rank - context + 1).clamp(min=0)  # context has rank 0 and sees itself
    forbidden = (rank[:, :, None] <= rank[:, None, :]) & (rank[:, None, :] > 0)
    padded = torch.randint(0, 4, (rows, 1), generator=generator)
    padded[0] = 0
    real = torch.arange(length) >= padded
    places = [(row & keep).nonzero().flatten()[:targets] for row, keep in zip(rank > 0, real, strict=True)]
    mapping = torch.zeros(rows, targets, length)
    for row, found in enumerate(places):
        mapping[row, torch.arange(len(found)), found] = 1.0
    return {
        "input_ids": ids,
        "perm_mask": forbidden.float(),
        "target_mapping": mapping,
        "token_type_ids": torch.randint(0, 3, (rows, length), generator=generator),
        "attention_mask": real.long(),
    }


def compare(model: XLNetLMHeadModel, folder: Path, *, rows: int, length: int, targets: int, seed: int) -> float:
    """The largest difference of logits over real targets, and of hidden states over real tokens."""
    ours = import_hf(folder)
    case = random_case(model.config, rows=rows, length=length, targets=targets, seed=seed)
    backend = Naive() if seed % 2 else Sdpa()
    with torch.no_grad():
        theirs = model(**case, use_mems=False).logits
        streams = from_transformers_inputs(**case)
        mine = logits_of(ours, streams, "query", backend=backend)
        used = streams.query.doc >= 0
        sees = (case["perm_mask"] == 0) & (case["attention_mask"] > 0)[:, None, :]
        sees = sees.gather(1, streams.query.position[..., None].expand(-1, -1, length)).any(-1)
        assert int((used & sees).sum()) > rows
        worst = float((mine - theirs)[used & sees].abs().max())

        plain = {key: value for key, value in case.items() if key != "target_mapping"}
        hidden = model(**plain, use_mems=False).logits
        content = logits_of(ours, from_transformers_inputs(**plain), "content", backend=backend)
    return max(worst, float((content - hidden)[case["attention_mask"] > 0].abs().max()))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "settings", [{"ff_activation": "gelu_new"}, {"ff_activation": "gelu"}, {"ff_activation": "relu", "clamp_len": 5}]
)
def test_logits_of_random_orders(settings: dict, seed: int, tmp_path: Path) -> None:
    model = random_weights(XLNetLMHeadModel(XLNetConfig(**SMALL, **settings)), seed=seed)
    folder = saved(model, tmp_path / "theirs")
    assert compare(model, folder, rows=4, length=14, targets=5, seed=seed) < ATOL


@pytest.mark.slow
def test_logits_of_base_shape(tmp_path: Path) -> None:
    """XLNet-Base with 32,000 pieces; the tokenizer at hand has fewer, which the import says."""
    config = XLNetConfig(d_model=768, n_layer=12, n_head=12, d_inner=3072, ff_activation="gelu_new")
    model = random_weights(XLNetLMHeadModel(config), std=0.02)
    assert sum(parameter.numel() for parameter in model.parameters()) == 116_750_336
    folder = saved(model, tmp_path / "base")
    assert any("500 pieces" in note for note in import_hf(folder).notes)
    assert compare(model, folder, rows=2, length=64, targets=10, seed=1) < ATOL


def streams_of(masks, plan: Plan, batch: TokenBatch, *, targets: int) -> Streams:  # type: ignore[no-untyped-def]
    return masks.build(batch, plan, vocab=VOCAB, num_targets=targets, generator=Draws(0, rows=batch.rows))


def random_batch(seed: int = 0, *, rows: int = 3, length: int = 12) -> TokenBatch:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(9, 500, (rows, length), generator=generator)
    return TokenBatch.of(ids, segment=torch.randint(0, 2, (rows, length), generator=generator))


def order_plan(batch: TokenBatch, *, given: int) -> Plan:
    generator = torch.Generator().manual_seed(batch.length)
    return Plan.from_order(torch.rand(batch.ids.shape, generator=generator).argsort(1), given=given)


def test_our_objectives_through_their_model_with_memory(tmp_path: Path) -> None:
    """Permutation LM over two segments: logits, loss and memories."""
    config = XLNetConfig(**SMALL, ff_activation="gelu_new", mem_len=8, reuse_len=8)
    model = random_weights(XLNetLMHeadModel(config))
    ours = import_hf(saved(model, tmp_path / "theirs"))
    backbone, head = ours.backbone(), head_of(ours)
    memory = SegmentMemory(mem_len=8, reuse_len=8)
    state = None
    with torch.no_grad():
        for segment in range(2):
            batch = random_batch(segment)
            streams = streams_of(TwoStream(), order_plan(batch, given=7), batch, targets=6)
            inputs = to_transformers_inputs(streams, state)
            assert ("mems" in inputs) == (segment > 0)
            theirs = model(**inputs, use_mems=True)
            output = backbone(streams, state)
            readout = streams.readouts["targets"]
            loss = head(readout.gather(output.query), readout, embedding=backbone.embedding.weight)
            used = readout.weight > 0
            assert int(used.sum()) == 5 * batch.rows
            mine = head.logits(output.query, embedding=backbone.embedding.weight)
            torch.testing.assert_close(mine[used], theirs.logits[used], rtol=0, atol=ATOL)
            torch.testing.assert_close(loss.loss_sum / loss.weight_sum, theirs.loss, rtol=0, atol=ATOL)
            start = memory.empty(rows=3, layers=3, width=32, device="cpu", dtype=torch.float32)
            state = memory.extend(state or start, output.layer_inputs, content=streams.content)
            for layer, other in zip(state.layers, theirs.mems, strict=True):
                torch.testing.assert_close(layer, other.transpose(0, 1), rtol=0, atol=ATOL)


@pytest.mark.parametrize("kind", ["masked", "causal"])
def test_one_stream_objectives_through_their_model(kind: str, tmp_path: Path) -> None:
    model = random_weights(XLNetLMHeadModel(XLNetConfig(**SMALL, ff_activation="gelu_new")))
    ours = import_hf(saved(model, tmp_path / "theirs"))
    batch = random_batch()
    if kind == "masked":
        hidden = torch.zeros_like(batch.ids, dtype=torch.bool)
        hidden[:, 2::3] = True
        streams = streams_of(InPlace(), Plan.of(hidden.long(), hidden), batch, targets=4)
    else:
        place = torch.arange(1, batch.length + 1).expand_as(batch.ids)
        streams = streams_of(Shift(), Plan.of(place, place > 1), batch, targets=11)
    inputs = to_transformers_inputs(streams)
    assert "target_mapping" not in inputs
    with torch.no_grad():
        theirs = model(**inputs, use_mems=False)
        backbone, head = ours.backbone(), head_of(ours)
        readout = streams.readouts["targets"]
        states = backbone(streams).content
        loss = head(readout.gather(states), readout, embedding=backbone.embedding.weight)
    torch.testing.assert_close(loss.loss_sum / loss.weight_sum, theirs.loss, rtol=0, atol=ATOL)


def test_what_a_perm_mask_cannot_say_is_refused() -> None:
    batch = random_batch()
    plan = order_plan(batch, given=7)
    streams = streams_of(TwoStream(), plan, batch, targets=6)
    backwards = Streams(
        content=Slots(**{**vars(streams.content), "direction": torch.tensor([1, -1, 1])}), query=streams.query
    )
    with pytest.raises(IncompatiblePartsError, match="right to left"):
        to_transformers_inputs(backwards)
    late = Streams(content=streams.content, query=Slots(**{**vars(streams.query), "time": streams.query.time + 3}))
    with pytest.raises(IncompatiblePartsError, match="one row of perm_mask"):
        to_transformers_inputs(late)
    empty = SegmentMemory(mem_len=4).empty(rows=3, layers=1, width=2, device="cpu", dtype=torch.float32)
    with pytest.raises(IncompatiblePartsError, match="all of the memory"):
        to_transformers_inputs(streams, empty)
    crossed = torch.zeros(1, 4, 4)
    crossed[0, 0, 1] = crossed[0, 1, 0] = 1  # the first two tokens do not see each other, and everything sees both
    with pytest.raises(IncompatiblePartsError, match="no order of tokens gives it"):
        from_transformers_inputs(torch.full((1, 4), 10), perm_mask=crossed)


def test_masks_and_streams_are_inverse() -> None:
    """From streams to a mask and back: what is seen stays the same."""
    batch = random_batch(length=20)
    streams = streams_of(TwoStream(), order_plan(batch, given=9), batch, targets=12)
    inputs = to_transformers_inputs(streams)
    inputs.pop("labels")
    again = to_transformers_inputs(from_transformers_inputs(**inputs))
    assert set(inputs) == set(again)
    for key in set(inputs) - {"perm_mask"}:
        assert torch.equal(inputs[key], again[key]), key
    used = inputs["target_mapping"].sum(1) > 0
    eye = torch.eye(20, dtype=torch.bool)
    differ = (inputs["perm_mask"] != again["perm_mask"]) & ~(eye & ~used[:, :, None])
    assert not differ.any()
    assert bool((from_transformers_inputs(**inputs).query.ids == QUERY_ID).all())


@pytest.mark.parametrize("shards", [False, True])
def test_round_trip_keeps_every_bit(shards: bool, tmp_path: Path) -> None:
    config = XLNetConfig(**SMALL, mem_len=7, ff_activation="gelu", dropout=0.25)
    model = random_weights(XLNetLMHeadModel(config))
    saved(model, tmp_path / "theirs", **({"max_shard_size": "50KB"} if shards else {}))
    assert (tmp_path / "theirs" / "model.safetensors.index.json").is_file() == shards
    first = import_hf(tmp_path / "theirs")
    first.save(tmp_path / "ours")
    export_hf(Pretrained.load(tmp_path / "ours"), tmp_path / "back")
    back = XLNetLMHeadModel.from_pretrained(tmp_path / "back")
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, back.state_dict()[name]), name
    ignored = {"_name_or_path", "transformers_version", "architectures"}
    before, after = ({k: v for k, v in c.to_dict().items() if k not in ignored} for c in (config, back.config))
    assert {k: v for k, v in after.items() if before.get(k) != v and k not in ("untie_r", "dtype")} == {}
    second = import_hf(tmp_path / "back")
    assert second.architecture == first.architecture
    assert set(second.state) == set(first.state)
    assert all(torch.equal(second.state[name], tensor) for name, tensor in first.state.items())


def test_a_damaged_or_pickled_folder_is_refused(tmp_path: Path) -> None:
    model = random_weights(XLNetLMHeadModel(XLNetConfig(**SMALL)))
    folder = saved(model, tmp_path / "theirs", max_shard_size="50KB")
    shard = sorted(folder.glob("model-*.safetensors"))[1]
    content = shard.read_bytes()
    shard.unlink()
    with pytest.raises(CheckpointError, match=r"is missing, and .* needs it"):
        import_hf(folder)
    shard.write_bytes(content[:-10])
    with pytest.raises(CheckpointError, match="cannot be read"):
        import_hf(folder)
    for file in folder.glob("*.safetensors*"):
        file.unlink()
    (folder / "pytorch_model.bin").write_bytes(b"never read")
    with pytest.raises(CheckpointError, match="can run code"):
        import_hf(folder)
    with pytest.raises(CheckpointError, match="hf download"):
        import_hf("nobody/no-such-model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "bert"}))
    with pytest.raises(CheckpointError, match="only 'xlnet'"):
        import_hf(folder)
