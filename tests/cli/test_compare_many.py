"""A comparison of more models than fit in columns, and of every yardstick."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from anyorder.cli.main import main
from anyorder.train.compare import Questions, UnequalBudgetsError, compare
from anyorder.train.compare.cell import Cell, CellResult
from anyorder.train.compare.child import work
from anyorder.train.compare.figures import _mark
from anyorder.train.recipe import Recipe, load_recipe
from anyorder.train.run import keep_recipe
from anyorder.train.yardsticks import ALL_YARDSTICKS

pytestmark = pytest.mark.usefixtures("draw_nothing")


def run_here(cell: Cell, *, parent: str | None, uri: str | None) -> CellResult:
    """As a comparison's own way, without a process for each cell."""
    keep_recipe(cell.recipe, cell.folder)
    return work(cell.folder, questions=cell.questions)


def variants(recipes: dict[str, Path], count: int) -> list[Recipe]:
    kinds = list(recipes)
    found = []
    for number in range(count):
        kind = kinds[number % len(kinds)]
        found.append(
            load_recipe(recipes[kind], overrides=[f"name={kind}-{number}", f"optimizer.lr={1e-3 * (number + 1)}"])
        )
    return found


@pytest.fixture(scope="module")
def questions() -> Questions:
    return Questions(windows=4, yardsticks="all")


def rows_of(report: str, corner: str) -> list[list[str]]:
    """The first Markdown table whose top left cell is this."""
    lines = report.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {corner} |"))
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return [rows[0], *rows[2:]]


def check_tables(report: str, names: Sequence[str], *, many: bool) -> None:
    titles = [yardstick.title for yardstick in ALL_YARDSTICKS]
    table = rows_of(report, "bits per token")
    head, side = table[0][1:], [row[0] for row in table[1:]]
    assert (head, side) == ((titles, list(names)) if many else (list(names), titles))
    assert all(len(row) == len(table[0]) for row in table)
    cells = {(row[0], column): cell for row in table[1:] for column, cell in zip(head, row[1:], strict=True)}
    bounds = [cell for key, cell in cells.items() if "Diffusion bound" in key and cell != "–"]
    assert bounds
    assert all("≤" in cell for cell in bounds)
    assert not any("≤" in cell for key, cell in cells.items() if "Diffusion bound" not in key)


@pytest.mark.slow
def test_thirteen_models_have_a_row_each(recipes: dict[str, Path], tmp_path: Path, questions: Questions) -> None:
    models = variants(recipes, 13)
    names = [model.name for model in models]
    found = compare(models, folder=tmp_path / "many", questions=questions, run_cell=run_here)
    report = (tmp_path / "many/report.md").read_text(encoding="utf-8")
    check_tables(report, names, many=True)
    assert "# Comparison of 13 objectives" in report
    assert "nan" not in report
    assert max(len(line) for line in str(found).splitlines() if line.startswith(tuple(names))) < 170
    pairs = [row for row in rows_of(report, "yardstick") if "−" in row[1]]
    assert len(pairs) <= 12 * len(ALL_YARDSTICKS), "only those with the best"
    tree = json.loads((tmp_path / "many/comparison.json").read_text(encoding="utf-8"))
    assert len(tree["yardsticks"]["cloze"]["differences"]) == 13 * 12 // 2
    assert tree["yardsticks"]["any_order"]["models"]["plm-0"]["spread"]["mean"] > 0
    assert tree["asked"] == "all"
    marks = [(_mark(found.results, name)["color"], _mark(found.results, name)["marker"]) for name in names]
    assert len(set(marks)) == 13, "no two look alike"
    for name in ("yardsticks", "spans", "losses"):
        assert (tmp_path / f"many/figures/{name}.png").stat().st_size > 10_000
    for yardstick in ALL_YARDSTICKS:
        assert f"**{yardstick.title}**: {yardstick.says}. Its number is {yardstick.kinds}." in report
    assert "Undefined for mlm-1, mlm-4, mlm-7 and mlm-10: it predicts all hidden tokens at once" in report


def test_three_models_have_a_column_each(recipes: dict[str, Path], tmp_path: Path, questions: Questions) -> None:
    models = variants(recipes, 3)
    compare(models, folder=tmp_path / "few", questions=questions, run_cell=run_here)
    report = (tmp_path / "few/report.md").read_text(encoding="utf-8")
    check_tables(report, [model.name for model in models], many=False)
    assert [row[0] for row in rows_of(report, "spread")[1:]] == ["Any order", "Diffusion bound"]
    assert "# Comparison: plm-0, mlm-1, clm-2" in report


@pytest.mark.slow
def test_cells_are_asked_again_when_the_yardsticks_change(recipes: dict[str, Path], tmp_path: Path) -> None:
    models, asked = variants(recipes, 2), []

    def run_cell(cell: Cell, *, parent: str | None, uri: str | None) -> CellResult:
        asked.append(cell.label)
        return run_here(cell, parent=parent, uri=uri)

    folder = tmp_path / "again"
    for which in ("basic", "basic", "cloze,any_order"):
        found = compare(models, folder=folder, questions=Questions(windows=2, yardsticks=which), run_cell=run_cell)
    assert len(asked) == 4
    assert found.results.yardsticks == ["cloze", "any_order"]


def test_unequal_budgets_among_many_name_the_odd_one_out(recipes: dict[str, Path], tmp_path: Path) -> None:
    models = variants(recipes, 8)
    odd = load_recipe(recipes["plm"], overrides=["name=odd", "train.steps=3"])
    with pytest.raises(UnequalBudgetsError, match=r"96 in odd"):
        compare([*models, odd], folder=tmp_path / "odd", run_cell=run_here)
    assert not (tmp_path / "odd" / "cells").exists()


def test_eval_asks_the_same(recipes: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    assert main(["train", str(recipes["plm"]), "--out", str(run)]) == 0
    file = tmp_path / "found.json"
    options = ["--windows", "2", "--batches", "1", "--json", str(file)]
    assert main(["eval", str(run), *options]) == 0
    basic = set(json.loads(file.read_text())["yardsticks"])
    assert main(["eval", str(run), *options, "--yardsticks", "all"]) == 0
    assert set(json.loads(file.read_text())["yardsticks"]) - basic == {
        "any_order",
        "diffusion_bound",
        "pseudo_likelihood",
    }
    assert "varies by" in " ".join(capsys.readouterr().out.split())
    assert main(["eval", str(run), "--yardsticks", "pseudolikelihood"]) == 2
    assert "did you mean 'pseudo_likelihood'?" in capsys.readouterr().err


def test_objectives_with_a_generator_or_pairs_are_in_one_table_with_notes(
    recipes: dict[str, Path], tmp_path: Path
) -> None:
    """All are asked about the same hidden tokens, though their rows have other blocks."""
    electra = ["name=electra", "memory=none", "objective.generator={n_layer: 1}", "data.stride=16"]
    pairs = ["name=pairs", "objective.auxiliary={next: {type: next_sentence}}", "data.layout=pairs"]
    whole = ["name=whole", "memory=none", "data.length=48", "data.stride=32", "train.batch_size=1"]
    settings = {"plm": [], "electra": electra, "pairs": pairs, "whole": whole}
    models = [load_recipe(recipes["plm" if name == "plm" else "mlm"], overrides=settings[name]) for name in settings]
    found = compare(models, folder=tmp_path / "grid", questions=Questions(windows=4), run_cell=run_here)
    assert found.results.recipes == tuple(settings)
    assert (found.questions.length, found.questions.tail) == (32, 16)
    for name in ("cloze", "span_recovery"):
        tokens = {found.results.of(recipe)[0].measurements[name].scores["all"].tokens for recipe in settings}
        assert len(tokens) == 1
        assert any(next(iter(tokens)))
    assert list(found.notes) == ["electra", "pairs", "whole"]
    assert "its head 'replaced' and its generator" in found.notes["electra"][0]
    assert found.notes["pairs"][1] == "rows laid out as pairs"
    assert found.notes["whole"][0].startswith("1 rows of 48 tokens a step, 32 of them new, where the others have 2 of")
    report = (tmp_path / "grid/report.md").read_text(encoding="utf-8")
    assert rows_of(report, "bits per token")[0][1:] == ["plm", "electra†", "pairs†", "whole†"]
    assert "windows of 32 tokens" in report
