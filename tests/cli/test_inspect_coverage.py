"""``anyorder inspect --coverage``."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyorder.cli.main import main


def lines(recipe: Path, capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    assert main(["inspect", "--coverage", str(recipe), *options]) == 0
    return capsys.readouterr().out.splitlines()


def table(found: list[str]) -> dict[int, list[int]]:
    rows = [line.replace(",", "").split() for line in found[2:]]
    return {int(row[0]): [int(cell) for cell in row[1:]] for row in rows if len(row) == 4 and row[0].isdigit()}


def test_a_causal_lm_learns_the_same_conditionals_in_every_draw(recipes, capsys) -> None:  # type: ignore[no-untyped-def]
    found = table(lines(recipes["clm"], capsys, "--draws", "6"))
    assert list(found) == [1, 2, 4, 6]
    # Two rows of 32 tokens, read in two blocks; every token but the first has one before it.
    assert found[1] == [62, 62, 2 * 32 * 31 // 2]
    assert found[6] == [6 * 62, *found[1][1:]]


def test_other_orders_go_on_finding_new_ones(recipes, capsys) -> None:  # type: ignore[no-untyped-def]
    for name in ("plm", "mlm"):
        found = table(lines(recipes[name], capsys, "--draws", "8"))
        assert found[8][1] > 4 * found[1][1]
        assert found[8][2] > found[1][2]


def test_the_argument_of_the_paper_is_said(recipes, capsys) -> None:  # type: ignore[no-untyped-def]
    plm = lines(recipes["plm"], capsys)[-1]
    assert "none of each other" in plm
    assert "times as many dependencies" in plm
    mlm = lines(recipes["mlm"], capsys, "--set", "memory={type: none}")
    assert "no prediction knows another target" in mlm[-1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--coverage"], "--coverage needs a recipe"),
        (["--coverage", "--leaks"], "two questions"),
        (["--draws", "3"], "for --coverage"),
        (["--coverage", "--draws", "0"], "1 or more"),
    ],
)
def test_what_makes_no_sense_is_refused(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", *options]) == 2
    assert message in capsys.readouterr().err
