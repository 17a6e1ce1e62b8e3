"""TensorFlow checkpoints: every value of the recorded ones to the bit, and every kind of damage named."""

from __future__ import annotations

import shutil
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from anyorder.core import CheckpointError
from anyorder.core.formats import crc32c, mask, varint
from anyorder.hf import import_tf
from anyorder.hf.official import EMBEDDING, from_official
from anyorder.hf.tensorflow import Bundle, read_table
from anyorder.models import Pretrained

GOLDEN = Path(__file__).parents[3] / "tests" / "data" / "golden"
PREFIX, DATA, INDEX = "xlnet_model.ckpt", "xlnet_model.ckpt.data-00000-of-00001", "xlnet_model.ckpt.index"
RUNS = ["untied", "tied"]


@pytest.fixture(params=RUNS)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    copy = tmp_path / "checkpoint"
    shutil.copytree(GOLDEN / f"ckpt_{request.param}", copy)
    shutil.copy(GOLDEN / "spm" / "spiece.model", copy)
    return copy


def crc32c_bit_by_bit(data: bytes) -> int:
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = (state >> 1) ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


def test_checksum_of_published_examples() -> None:
    """RFC 3720, appendix B.4."""
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E
    assert crc32c(b"123456789") == 0xE3069283


@given(size=st.integers(0, 3 * 2**15 + 9), seed=st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_checksum_agrees_with_its_slow_twin(size: int, seed: int) -> None:
    data = np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)
    assert crc32c(data) == crc32c_bit_by_bit(data.tobytes())


def test_every_value_to_the_bit(folder: Path) -> None:
    recorded = load_file(folder / "values.safetensors")
    bundle = Bundle.open(folder / PREFIX)
    assert set(bundle.entries) == set(recorded)
    for name, expected in recorded.items():
        value = bundle.read(name)
        assert value.dtype == expected.dtype
        assert torch.equal(value, expected), name


def test_import(folder: Path, tmp_path: Path) -> None:
    recorded = load_file(folder / "values.safetensors")
    model = import_tf(folder, optimizer=True)
    assert model.architecture.untie_biases == (f"{EMBEDDING}/adam_m" in recorded)
    assert model.architecture.activation == ("gelu" if model.architecture.untie_biases else "relu")
    assert not model.notes
    expected = from_official(recorded, n_layer=2)
    assert {name.removeprefix("backbone.") for name in model.state if name.startswith("backbone.")} == set(expected)
    assert all(torch.equal(model.state[f"backbone.{name}"], value) for name, value in expected.items())
    model.backbone()
    model.save(tmp_path / "ours")
    again = Pretrained.load(tmp_path / "ours")
    assert again.architecture == model.architecture
    assert all(torch.equal(again.state[name], value) for name, value in model.state.items())

    first = "adam_m" if f"{EMBEDDING}/adam_m" in recorded else "Adam"
    second = "adam_v" if first == "adam_m" else "Adam_1"
    for slot, moment in ((first, "exp_avg"), (second, "exp_avg_sq")):
        moments = {name.removesuffix(f"/{slot}"): v for name, v in recorded.items() if name.endswith(f"/{slot}")}
        for name, value in from_official(moments, n_layer=2).items():
            assert torch.equal(again.optimizer[f"backbone.{name}/{moment}"], value)
    assert float(again.optimizer["backbone.embedding.weight/step"]) == 4
    assert {name.rpartition("/")[0] for name in again.optimizer} == set(model.state)


def test_tied_biases_are_given_to_every_layer(tmp_path: Path) -> None:
    source = tmp_path / "tied"
    shutil.copytree(GOLDEN / "ckpt_tied", source)
    shutil.copy(GOLDEN / "spm" / "spiece.model", source)
    model = import_tf(source)
    assert not model.architecture.untie_biases
    layers = [model.state[f"backbone.layers.{layer}.attention.r_w_bias"] for layer in range(2)]
    assert torch.equal(layers[0], layers[1])
    backbone = model.backbone()
    assert backbone.layers[0].attention.r_w_bias is backbone.layers[1].attention.r_w_bias
    other = {"backbone.layers.1.attention.r_w_bias": layers[1] + 1}
    with pytest.raises(CheckpointError, match="r_w_bias differs between layers"):
        replace(model, state={**model.state, **other})


def edit(path: Path, at: int, value: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[at : at + len(value) if at >= 0 else None] = value
    path.write_bytes(content)


def test_damage_is_named(folder: Path) -> None:
    data, index = folder / DATA, folder / INDEX
    whole = data.read_bytes()

    data.write_bytes(whole[:-100])
    with pytest.raises(CheckpointError, match="cut short"):
        import_tf(folder)
    data.write_bytes(whole)
    place = Bundle.open(folder / PREFIX).entries[EMBEDDING]
    edit(data, place.offset + 1234, bytes([whole[place.offset + 1234] ^ 1]))
    with pytest.raises(CheckpointError, match=r"checksum of model/transformer/word_embedding/lookup_table"):
        import_tf(folder)
    data.unlink()
    with pytest.raises(CheckpointError, match="is missing; a checkpoint is its index and all"):
        import_tf(folder)
    data.write_bytes(whole)

    table = index.read_bytes()
    index.write_bytes(table[:-5])
    with pytest.raises(CheckpointError, match="no index of a checkpoint"):
        import_tf(folder)
    index.write_bytes(table[:20])
    with pytest.raises(CheckpointError, match="no index of a checkpoint"):
        import_tf(folder)
    index.write_bytes(table[:-8] + b"notmagic")
    with pytest.raises(CheckpointError, match="no index of a checkpoint"):
        import_tf(folder)
    index.unlink()
    with pytest.raises(CheckpointError, match="no file that ends in"):
        import_tf(folder)


@pytest.mark.parametrize("run", RUNS)
def test_no_flipped_byte_of_an_index_goes_unseen(run: str) -> None:
    """A byte anywhere but in the empty padding of the footer."""
    table = (GOLDEN / f"ckpt_{run}" / INDEX).read_bytes()
    whole = read_table(table, name="index")
    for at in np.random.default_rng(0).integers(0, len(table), 300):
        flipped = bytearray(table)
        flipped[at] ^= 0x10
        try:
            found = read_table(bytes(flipped), name="index")
        except CheckpointError:
            continue
        assert found == whole, at
        assert len(table) - 48 <= at < len(table) - 8 or _in_metaindex(at, table), at


def _in_metaindex(at: int, table: bytes) -> bool:
    """The block of meta data, which checkpoints leave empty and nobody reads."""
    offset, after = varint(table[-48:], 0)
    size, _ = varint(table[-48:], after)
    return offset <= at < offset + size + 5


def test_compressed_blocks_are_refused() -> None:
    table = (GOLDEN / "ckpt_tied" / INDEX).read_bytes()
    footer = table[-48:]
    _, at = varint(footer, 0)
    _, at = varint(footer, at)
    offset, at = varint(footer, at)
    size, _ = varint(footer, at)
    end = offset + size
    block = table[offset:end] + b"\x01"
    changed = table[:end] + b"\x01" + struct.pack("<I", mask(crc32c(block))) + table[end + 5 :]
    with pytest.raises(CheckpointError, match="compressed with Snappy"):
        read_table(changed, name="index")


def test_what_is_missing_is_named(folder: Path) -> None:
    with pytest.raises(CheckpointError, match="no variable 'model/lm_los/bias'; did you mean 'model/lm_loss/bias'"):
        Bundle.open(folder / PREFIX).read("model/lm_los/bias")
    (folder / "spiece.model").unlink()
    with pytest.raises(CheckpointError, match="--tokenizer"):
        import_tf(folder)
    shutil.copy(folder / INDEX, folder / "second.index")
    with pytest.raises(CheckpointError, match="several checkpoints; name one"):
        import_tf(folder)
    (folder / "xlnet_config.json").write_text("{}")
    with pytest.raises(CheckpointError, match="n_token"):
        import_tf(folder, prefix=PREFIX)
