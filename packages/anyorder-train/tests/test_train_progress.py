"""What a run says, and the curves it draws."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from small_training import CountingText, small_fit, small_objective

from anyorder.train.curves import draw_curves
from anyorder.train.progress import BarProgress, LineProgress, console_progress, format_record

RECORD = {
    "step": 20,
    "loss": 7.9,
    "loss/loss": 7.5,
    "loss/next": 0.4,
    "lr": 1e-3,
    "grad_norm": 1.25,
    "tokens_per_second": 41234.0,
    "targets": 340,
    "blind": 2,
    "valid/loss": 8.0,
}


def test_a_line_names_all_that_matters() -> None:
    line = format_record(RECORD, steps=400)
    assert line == (
        "step 20/400  loss 7.9000  loss 7.5000  next 0.4000  lr 0.001  grad 1.25  41.2k tokens/s  targets 340  "
        "blind 2  valid 8.0000"
    )


def test_plain_lines_where_nobody_watches() -> None:
    stream = io.StringIO()
    progress = console_progress(stream)
    assert isinstance(progress, LineProgress)
    progress.begin(steps=400, done=0)
    progress.step(RECORD)
    progress.report(RECORD)
    progress.end()
    assert stream.getvalue().startswith("step 20/400  loss 7.9")
    assert stream.getvalue().count("\n") == 1


def test_a_bar_on_a_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    progress = console_progress(stream)
    assert isinstance(progress, BarProgress)
    progress.begin(steps=400, done=10)
    progress.step(RECORD)
    progress.report(RECORD)
    progress.note("[not markup]")
    progress.end()
    assert "step 20/400" in stream.getvalue()
    assert "[not markup]" in stream.getvalue()


def test_a_run_speaks_early_and_draws_its_curves(tmp_path: Path) -> None:
    stream = io.StringIO()
    objective = small_objective("clm")
    result = small_fit(
        tmp_path, objective=objective, steps=12, progress=LineProgress(stream), valid=CountingText(purpose="held out")
    )
    lines = stream.getvalue().splitlines()
    assert [line.split("  ")[0] for line in lines] == [f"step {n}/12" for n in (1, 2, 5, 10, 12)]
    assert lines[0].endswith("left")
    assert f"loss {result.records[-1]['loss']:.4f}" in lines[-1]
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert ET.parse(tmp_path / "curves.svg").getroot().tag.endswith("svg")


@pytest.mark.parametrize("count", [0, 1])
def test_curves_of_next_to_nothing(tmp_path: Path, count: int) -> None:
    assert len(draw_curves([RECORD][:count], tmp_path)) == 2 * count
