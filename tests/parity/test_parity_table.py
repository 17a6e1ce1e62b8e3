"""The page of differences in the docs names every recorded case, and nothing in it is over what the tests allow."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from .ledger import note, write_page

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "parity.md").read_text(encoding="utf-8")
GOLDEN = ROOT / "tests" / "data" / "golden"
ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]


def recorded(name: str) -> set[str]:
    tree = json.loads((GOLDEN / name).read_text())
    return {case for case in tree.get("cases", tree) if not case.startswith("_")}


def test_every_recorded_case_has_a_row() -> None:
    cases = recorded("model_cases.json") | recorded("head_cases.json") | recorded("optimizer.json")
    assert len(cases) == 38 + 18 + 10
    assert cases <= {row[0] for row in ROWS}
    for run in (*recorded("train.json"), "uni", "bi", "bi_2core", "uni_nogoal"):
        assert sum(row[0].startswith(f"{run}, ") for row in ROWS) == 2, run


def test_no_difference_is_over_the_tolerance() -> None:
    single = 0
    for row in ROWS:
        for cell in row[1:]:
            found = re.fullmatch(r"(\d\.?\d*e[-+]\d\d|–) / (\d\.?\d*e[-+]\d\d|–)", cell)
            if found is None:
                assert cell in ("–", "0") or not cell[0].isdigit(), (row[0], cell)  # a count of differing entries
                continue
            double, simple = (0.0 if number == "–" else float(number) for number in found.groups())
            against_double = row[0] in recorded("model_cases.json") | recorded("head_cases.json")
            assert double <= (1e-10 if against_double else 5e-5), (row[0], cell)
            assert simple <= 1e-4, (row[0], cell)
            single += 1
    assert single > 200


def test_a_page_of_some_of_the_tests_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.parity.ledger._noted", {"model": {}})
    with pytest.raises(ValueError, match="nothing was noted of heads, optimizer, training, data"):
        write_page(tmp_path / "page.md")
    assert note is not None
    assert not list(tmp_path.iterdir())
