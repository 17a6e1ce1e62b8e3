"""Whole pretraining data, from text to masks and target mappings, against the official parser's output."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from anyorder.core import TARGETS, Draws, TokenBatch, Visibility
from anyorder.data import Tokenizer
from anyorder.data.xlnet import RecordLayout, RecordRows, prepare_records
from anyorder.masks import TwoStream
from anyorder.orders import Permutation, Recorded

from .ledger import note

GOLDEN = Path(__file__).parents[1] / "data" / "golden"
DATA = Path(__file__).parents[2] / "packages" / "anyorder-data" / "tests" / "data"
RUNS = json.loads((DATA / "data_runs.json").read_text())
SIZES = (32, 8)


class RecordedOrder(Draws):
    """Draws of which the permutations are given: what is at place k of a block is at rank ``perm[k]``."""

    def __init__(self, permutations: Tensor) -> None:
        super().__init__(0, rows=len(permutations))
        self._permutations = permutations  # [B, half, S]

    def bits(self, *shape: int) -> Tensor:
        if shape == tuple(self._permutations.shape[1:]):
            return self._permutations.argsort(dim=2)  # whose own argsort is the permutation again
        return super().bits(*shape)


def read(run: str, folder: Path) -> tuple[TokenBatch, Tokenizer]:
    """Every record of a run, made from its text with the official seeds, as one batch."""
    flags = RUNS[run]["args"]
    tokenizer = Tokenizer.load(DATA / "spiece.model", lower=flags["uncased"])
    layout = RecordLayout(
        rows=flags["bsz_per_host"],
        length=flags["seq_len"],
        reuse=flags["reuse_len"],
        bidirectional=flags["bi_data"],
        cores=flags["num_core_per_host"],
        targets=flags["num_predict"],
    )
    prepare_records(
        [DATA / "a.txt", DATA / "b.txt"],
        folder,
        tokenizer=tokenizer,
        layout=layout,
        seed=RUNS[run]["python_random_seed"],
        task=flags["task"],
        pass_id=flags["pass_id"],
        eod=flags["use_eod"],
    )
    rows = RecordRows(
        folder,
        vocab=tokenizer.vocab,
        starts_word=tokenizer.starts_word,
        rows=layout.rows,
        length=layout.length,
        stride=layout.reuse,
        bidirectional=layout.bidirectional,
        cores=layout.cores,
    )
    batches = [rows.batch(step) for step in range(3)]

    def join(name: str) -> Tensor:
        return torch.cat([getattr(batch, name) for batch in batches])

    names = ("ids", "fixed", "segment", "block", "target", *(["direction"] if layout.bidirectional else []))
    labels = {"next_sentence": torch.cat([batch.labels["next_sentence"] for batch in batches])}
    return TokenBatch.of(join("ids"), **{name: join(name) for name in names[1:]}, labels=labels), tokenizer


def mismatches(run: str, size: int, folder: Path) -> dict[str, int]:
    """How many entries of each parsed array are not ours."""
    golden = np.load(GOLDEN / f"data_parsed_{run}.npz")
    flags = RUNS[run]["args"]
    everything, tokenizer = read(run, folder)
    order = Permutation(targets=Recorded(num_predict=flags["num_predict"]), perm_size=size)
    rows = flags["bsz_per_host"] // flags["num_core_per_host"]
    wrong: dict[str, int] = {}
    for number in range(3):

        def parsed(name: str, number: int = number) -> Tensor:
            return torch.from_numpy(golden[f"perm{size}/batch{number}/{name}"].astype(np.int64))

        batch = everything.map(lambda tensor, at=number * rows: tensor[at : at + rows])
        draws = RecordedOrder(torch.stack([parsed("perm_0"), parsed("perm_1")], dim=1))
        plan = order.sample(batch, generator=draws).within_blocks(batch)
        places = order.num_targets(batch.length)
        streams = TwoStream().build(batch, plan, vocab=tokenizer.vocab, num_targets=places, generator=draws)
        readout, query = streams.readouts[TARGETS], streams.query
        real = readout.weight > 0
        sees = parsed("perm_mask") == 0
        found = {
            "input_k": (batch.ids, parsed("input_k")),
            "seg_id": (batch.segment, parsed("seg_id")),
            "label": (batch.labels["next_sentence"], parsed("label")[:, 0]),
            "input_q": (plan.target.long(), parsed("input_q")),
            "content mask": (
                Visibility.of(streams.content, streams.content).dense(),
                sees | torch.eye(batch.length, dtype=torch.bool),
            ),
            "query mask": (
                Visibility.of(query, streams.content).dense()[real],
                sees.gather(1, readout_places(query.position, batch.length))[real],
            ),
        }
        if flags["num_predict"] is None:
            found["target_mask"] = (plan.target.long(), parsed("target_mask"))
            found["target"] = ((batch.ids * plan.target)[plan.target], parsed("target")[plan.target])
        else:
            mapping = torch.nn.functional.one_hot(query.position, batch.length) * real[..., None]
            found["target_mapping"] = (mapping, parsed("target_mapping"))
            found["target_mask"] = (real.long(), parsed("target_mask"))
            found["target"] = (readout.labels, parsed("target"))
        for name, (ours, theirs) in found.items():
            assert ours.shape == theirs.shape, name
            wrong[name] = wrong.get(name, 0) + int((ours != theirs).sum())
    return wrong


def readout_places(position: Tensor, length: int) -> Tensor:
    return position[..., None].expand(-1, -1, length)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("run", sorted(RUNS))
def test_text_becomes_the_official_masks(run: str, size: int, tmp_path: Path) -> None:
    wrong = mismatches(run, size, tmp_path)
    for name, count in wrong.items():
        note("data", f"{run}, perm_size {size}", name, "exact", count)
    assert len(wrong) >= 8
    assert not any(wrong.values()), wrong
