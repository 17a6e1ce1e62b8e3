"""``list`` and ``doctor``: what is installed, broken parts included."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from anyorder.core import SEAMS, available, registry


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin whose module fails, and two of one name."""
    found = dict(registry._scan(registry._import_path()))
    for seam, name, value in (
        ("order", "crooked", "no_such_module_of_mine:Crooked"),
        ("masks", "shift", "someone_else:Shift"),
    ):
        found[SEAMS[seam]] += (EntryPoint(name, value, SEAMS[seam]),)
    monkeypatch.setattr(registry, "_scan", lambda path: found)


def test_list_names_every_part_with_its_arguments(anyorder: Callable) -> None:
    ran = anyorder("list")
    assert ran.code == 0
    for seam in SEAMS:
        assert f"{seam}  ({SEAMS[seam]})" in ran.out
        for name in available(seam):
            assert f"\n  {name} " in ran.out
    assert "targets=None, perm_size=None" in ran.out
    assert "BROKEN" not in ran.out
    assert "``" not in ran.out


def test_list_of_one_seam(anyorder: Callable) -> None:
    ran = anyorder("list", "memory")
    assert ran.out.startswith("memory  (anyorder.memories)\n  none ")
    assert "anyorder.loss_heads" not in ran.out


def test_list_shows_a_broken_part_and_goes_on(anyorder: Callable, broken: None) -> None:
    ran = anyorder("list")
    assert ran.code == 0
    lines = ran.out.splitlines()
    crooked = next(number for number, line in enumerate(lines) if line.startswith("  crooked"))
    assert lines[crooked + 1].startswith("    BROKEN: the order part 'crooked' of an unnamed distribution")
    assert "No module named 'no_such_module_of_mine'" in lines[crooked + 1]
    shift = next(number for number, line in enumerate(lines) if line.startswith("  shift"))
    assert "BROKEN: two masks parts are called 'shift'" in lines[shift + 1]
    assert "loss  (anyorder.loss_heads)" in lines


def test_doctor_is_content_here(anyorder: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYORDER_CACHE", str(tmp_path / "cache"))
    ran = anyorder("doctor", "--runs", tmp_path / "runs")
    assert ran.code == 0, ran.out
    report, _, table = ran.out.partition("\n\n")
    rows = [line.split(None, 1) for line in report.splitlines()]
    assert {status for status, _ in rows} <= {"ok", "warn"}
    for what in ("torch", "anyorder", "cpu", "attention  ", "parts", "runs folder", "cache"):
        assert any(found.startswith(what) for _, found in rows), what
    assert list(tmp_path.iterdir()) == []  # it only looks
    assert table.startswith("attention on ")
    assert "\nauto takes " in table


def test_list_of_backends_says_what_each_can_do_here_and_why_not_the_rest(
    anyorder: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    ran = anyorder("list", "attention-backends")
    assert ran.out.startswith("attention  (anyorder.attention_backends)\n")
    assert ran.out == anyorder("list", "attention").out
    table = ran.out.partition("attention on cpu")[2].splitlines()
    columns = ["train fp32", "train bf16", "train fp16", "evaluate fp32", "evaluate bf16", "evaluate fp16"]
    assert table[1].split("  ")[0] == "backend"
    assert [cell.strip() for cell in table[1].split("  ") if cell.strip()][1:] == [*columns, "dropout", "compiled"]
    served = {line.split()[0]: line.split()[1:] for line in table[2:] if line.split()[1:2] in (["yes"], ["no"])}
    assert set(served) >= {"naive", "sdpa", "chunked", "tiled", "xformers", "flex"}
    assert served["naive"] == served["sdpa"] == served["chunked"] == ["yes"] * 8
    assert served["tiled"] == ["yes"] * 7 + ["no"]
    assert served["flex"] == ["no"] * 3 + ["yes"] * 3 + ["no"] * 2
    assert served["xformers"] == ["no"] * 8
    assert "  tiled: not to train compiled: torch.compile cannot follow its tiles (train.compile)" in table
    assert "  flex: not to train: FlexAttention has no backward pass on a CPU" in table
    assert any(line.startswith("  xformers: xformers ") for line in table)
    assert next(line for line in table if line.startswith("auto takes")).split()[2:] == ["tiled"] * 7 + ["sdpa"]


def test_doctor_names_a_broken_part(anyorder: Callable, broken: None) -> None:
    ran = anyorder("doctor")
    assert ran.code == 1
    failed = [line for line in ran.out.splitlines() if line.startswith("fail")]
    assert len(failed) == 2
    assert "order crooked" in failed[0]


def test_doctor_goes_on_when_a_check_fails(anyorder: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: 1 / 0)
    ran = anyorder("doctor")
    assert ran.code == 1
    assert "fail  device" in ran.out
    assert "ZeroDivisionError" in ran.out
    assert "runs folder" in ran.out


def test_doctor_sees_a_folder_that_cannot_be_written(anyorder: Callable) -> None:
    ran = anyorder("doctor", "--runs", "/proc/runs")
    assert ran.code == 1
    assert "/proc/runs cannot be written" in ran.out
