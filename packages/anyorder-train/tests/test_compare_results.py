"""What a comparison makes of the numbers of its cells: means, pairs, verdicts and the report."""

from __future__ import annotations

import base64
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from anyorder.train.compare import (
    Budget,
    CellResult,
    Comparison,
    Questions,
    Results,
    UnequalBudgetsError,
    write_report,
)
from anyorder.train.compare.budget import require_equal
from anyorder.train.compare.document import Paragraph, Table, to_html, to_markdown
from anyorder.train.compare.inherent import inherent_notes
from anyorder.train.compare.statistics import t_quantile
from anyorder.train.compare.verdicts import about_seeds, verdict
from anyorder.train.yardsticks import Measurement, Score, Standing

WINDOWS = 6


def measurement(bits: float | None, *, kind: str = "exact", sees: str = "all", name: str = "cloze") -> Measurement:
    """Windows of two tokens and eight bytes each, whose bits per token differ by a fixed pattern around ``bits``."""
    if bits is None:
        return Measurement(yardstick=name, standing=Standing(kind="undefined", reason="it cannot"), scores={})
    pattern = [-0.5, -0.3, -0.1, 0.1, 0.3, 0.5]
    nats = tuple(2 * (bits + 0.2 * d) * math.log(2) for d in pattern)
    score = Score(nats=nats, tokens=(2,) * WINDOWS, bytes=(8,) * WINDOWS)
    standing = Standing(kind=kind, sees=sees)  # type: ignore[arg-type]
    return Measurement(yardstick=name, standing=standing, scores={"all": score})


def cell(recipe: str, seed: int, found: Measurement, **others: Any) -> CellResult:
    values: dict[str, Any] = {
        "recipe": recipe,
        "seed": seed,
        "digest": "d",
        "corpus": "c",
        "questions": Questions(windows=WINDOWS),
        "parameters": 10,
        "steps": 3,
        "tokens": 600,
        "targets": 90,
        "seconds": 3.0,
        "peak_memory": 2**20,
        "device": "abacus",
        "losses": ((1, 5.0), (2, 4.0), (3, 3.5)),
        "held_out": ((3, 3.6),),
        "measurements": {found.yardstick: found},
        "versions": {"torch": "2"},
    }
    return CellResult(**(values | others))


def results(bits: dict[str, list[float | None]], **kinds: str) -> Results:
    cells = [
        cell(name, seed, measurement(value, kind=kinds.get(name, "exact")))
        for name, values in bits.items()
        for seed, value in enumerate(values, start=1)
    ]
    return Results(cells, recipes=list(bits))


def test_means_and_intervals_are_over_seeds() -> None:
    found = results({"a": [5.0, 5.2, 5.4], "b": [6.0, 6.0, 6.0]})
    score = found.score("a", "cloze")
    assert score.mean == pytest.approx(5.2)
    assert score.half_width == pytest.approx(t_quantile(0.975, 2) * 0.2 / math.sqrt(3))
    assert found.score("a", "cloze", unit="bits_per_byte").mean == pytest.approx(5.2 / 4)
    assert found.over_seeds("a", lambda one: one.parameters).mean == 10


def test_differences_are_in_pairs_of_one_seed() -> None:
    """Seeds differ by a bit and more, models always by about 0.1: only pairs can tell."""
    found = results({"a": [5.0, 6.0, 7.5], "b": [5.1, 6.11, 7.59]})
    pair = found.difference("a", "b", "cloze")
    assert pair.basis == "seeds"
    assert pair.estimate.mean == pytest.approx(-0.1)
    assert pair.clear
    assert verdict(found, "cloze").winner == "a"
    assert verdict(found, "cloze").headline == "a wins"


def test_with_one_seed_windows_stand_in_and_it_is_said() -> None:
    found = results({"a": [5.0], "b": [5.1]})
    pair = found.difference("a", "b", "cloze")
    assert pair.basis == "windows"
    assert pair.estimate.mean == pytest.approx(-0.1)
    assert pair.estimate.half_width == pytest.approx(0, abs=1e-9)  # the windows differ alike in both
    score = found.score("a", "cloze")
    spread = math.sqrt(sum((0.2 * d) ** 2 for d in (0.5, 0.3, 0.1)) * 2 / 5)
    assert score.half_width == pytest.approx(t_quantile(0.975, 5) * spread / math.sqrt(6))
    assert verdict(found, "cloze").headline == "a wins, on one seed"
    assert "One seed proves nothing" in about_seeds(found)
    assert "One seed" not in about_seeds(results({"a": [1.0, 2.0]}))


def test_a_lost_cell_gives_no_interval_of_another_kind() -> None:
    found = results({"a": [5.0, 5.5], "b": [5.1]})
    assert found.score("b", "cloze").half_width is None
    assert found.difference("a", "b", "cloze").basis == "windows"


def test_what_overlaps_is_within_noise() -> None:
    found = results({"a": [5.0, 5.3, 5.1], "b": [5.1, 5.2, 5.15], "c": [7.0, 7.1, 7.2]})
    told = verdict(found, "cloze")
    assert told.winner is None
    assert told.headline == "a and b lie within noise of each other"
    assert "b 0.017 more" in told.details[0]
    assert ": within noise" in told.details[0]
    assert "c 1.967 more (interval 1." in told.details[0]


def test_undefined_models_do_not_compete() -> None:
    found = results({"a": [5.0, 5.1], "b": [None, None]})
    assert verdict(found, "cloze").headline == "only a has such a number"
    assert verdict(found, "cloze").details == ("Undefined for b: it cannot.",)
    assert found.difference("a", "b", "cloze") is None
    assert verdict(results({"a": [None]}), "cloze").headline == "no model has such a number"


def test_an_exact_number_does_not_win_against_a_bound() -> None:
    """A bound says that a model needs at most so much; it may need less than the other."""
    worse = results({"a": [5.0, 5.1], "b": [6.0, 6.1]}, b="bound")
    assert verdict(worse, "cloze").winner is None
    assert verdict(worse, "cloze").headline == "undecided: what is known of b is only a bound"
    better = results({"a": [6.0, 6.1], "b": [5.0, 5.1]}, b="bound")
    assert verdict(better, "cloze").winner == "b"
    both = results({"a": [6.0, 6.1], "b": [5.0, 5.1]}, a="bound", b="bound")
    assert verdict(both, "cloze").headline == "b has the lowest bound"


def test_what_each_saw_is_told_where_it_differs() -> None:
    cells = [
        cell("a", 1, measurement(5.0)),
        cell("b", 1, measurement(6.0, sees="half")),
        cell("c", 1, measurement(6.5)),
    ]
    found = Results(cells, recipes=["a", "b", "c"])
    assert verdict(found, "cloze").details[-1] == "Not alike: a and c see all; b sees half."


def test_a_speed_is_told_as_a_fact_only_where_timings_agree(tmp_path: Path) -> None:
    def timed(**seconds: list[float]) -> Results:
        cells = [
            cell(name, seed, measurement(5.0), seconds=value)
            for name, values in seconds.items()
            for seed, value in enumerate(values, start=1)
        ]
        return Results(cells, recipes=list(seconds))

    steady = timed(a=[2.0, 4.0], b=[3.0, 6.1])
    assert steady.speed("a") == pytest.approx(1200 / 6)
    assert steady.speed("a", of="targets") == pytest.approx(180 / 6)
    assert steady.surely_faster("a", "b")
    assert not steady.surely_faster("b", "a")
    for found, said in [
        (steady, "Speed: a trains fastest"),
        (timed(a=[2.0, 9.0], b=[6.0, 6.0]), "timings do not tell a from b"),
        (timed(a=[2.0], b=[3.0]), "Speed: a trained fastest,** 300 tokens a second, 1.50 times b, timed once"),
    ]:
        write_report(comparison(tmp_path, found))
        assert said in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_cells_survive_their_file(tmp_path: Path) -> None:
    one = cell("a", 1, measurement(5.0), peak_memory=None)
    one.save(tmp_path)
    assert CellResult.load(tmp_path) == one
    text = (tmp_path / "cell.json").read_text()
    (tmp_path / "cell.json").write_text(text[: len(text) // 2])
    assert CellResult.load(tmp_path) is None
    assert CellResult.load(tmp_path / "nowhere") is None


def comparison(folder: Path, found: Results, **others: Any) -> Comparison:
    budget = Budget(
        tokens=600,
        steps=3,
        tokens_per_step=200,
        backbone=1000,
        model="n_layer 1",
        corpus="c",
        source="text",
        further={"head 'loss'": 10},
        rows=2,
        length=16,
        stride=16,
        layout={"layout": "plain"},
    )
    recipes = [
        SimpleNamespace(name=name, seed=1, tree={"name": name, "objective": {"order": name}, "optimizer": {"lr": 1}})
        for name in found.recipes
    ]
    values: dict[str, Any] = {
        "folder": folder,
        "recipes": recipes,
        "budgets": dict.fromkeys(found.recipes, budget),
        "results": found,
        "failures": {},
        "questions": Questions(windows=WINDOWS),
    }
    return Comparison(**(values | others))


class Outside(HTMLParser):
    """Collects whatever a page would fetch or run."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.images: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "link", "iframe", "object", "embed"):
            self.found.append(tag)
        for name, value in attrs:
            if name in ("src", "href") and not (value or "").startswith("data:"):
                self.found.append(f"{name}={value}")
            if name == "src":
                self.images.append(value or "")
            if name.startswith("on"):
                self.found.append(name)
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_in_itself(tmp_path: Path) -> None:
    found = comparison(tmp_path, results({"a": [5.0, 5.2], "b": [6.0, 6.1]}))
    files = write_report(found)
    assert {file.name for file in files} >= {"report.md", "report.html", "comparison.json", "yardsticks.png"}
    assert all(file.is_file() for file in files)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    outside = Outside()
    outside.feed(page)
    assert outside.found == []
    assert outside.open == []
    assert len(outside.images) == 2  # no span lengths here
    svg = base64.b64decode(outside.images[0].partition(",")[2]).decode()
    assert svg.startswith("<?xml")
    fetched = re.findall(r'(?:href|src)="(?!#)[^"]*"|url\((?!#)[^)]*\)', svg)
    assert fetched == []
    assert "@import" not in page
    assert "url(" not in page


def test_the_same_results_give_the_same_bytes(tmp_path: Path) -> None:
    written = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        files = write_report(comparison(tmp_path / name, results({"a": [5.0], "b": [6.0]})))
        written.append({file.name: file.read_bytes() for file in files})
    assert written[0] == written[1]


def test_the_answer_comes_first_and_only_a_clear_best_is_bold(tmp_path: Path) -> None:
    write_report(comparison(tmp_path, results({"a": [5.0, 5.2], "b": [6.0, 6.1]})))
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert text.index("**Cloze: a wins.**") < text.index("## Yardsticks")
    assert re.search(r"\| Cloze \| \*\*5\.100 ± 1\.271\*\* \| 6\.050 ± 0\.635 \|", text)
    write_report(comparison(tmp_path, results({"a": [5.0, 5.2], "b": [5.2, 5.1]})))
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "lie within noise" in text
    assert re.search(r"\| Cloze \| 5\.100 ± [\d.]+ \| 5\.150 ± [\d.]+ \|", text)


def test_failures_and_unequal_budgets_are_said_at_the_top(tmp_path: Path) -> None:
    found = results({"a": [5.0], "b": [6.0]})
    plain = comparison(tmp_path, found)
    longer = Budget(**(plain.budgets["a"].to_json() | {"steps": 9, "tokens": 1800}))
    write_report(
        comparison(tmp_path, found, failures={"b, seed 2": "it broke"}, budgets={**plain.budgets, "b": longer})
    )
    top = (tmp_path / "report.md").read_text(encoding="utf-8").partition("## In short")[0]
    assert "it broke" in top
    assert "tokens in all, steps" in top
    assert "their budgets are not equal" in top


def test_what_belongs_to_an_objective_is_noted_and_nothing_else_is(tmp_path: Path) -> None:
    found = results({"a": [5.0], "b": [6.0], "c": [6.0], "d": [7.0]})
    plain = comparison(tmp_path, found).budgets["a"]
    larger = replace(plain, further={"head 'loss'": 10, "generator": 240, "head 'replaced'": 20})
    pairs = replace(plain, rows=4, stride=8, layout={"layout": "pairs"})
    budgets = {"a": plain, "b": larger, "c": plain, "d": pairs}
    require_equal(budgets)
    one = comparison(tmp_path, found, budgets=budgets)
    assert one.notes == {
        "b": ["1,270 parameters, 1.26 times the others': its generator and its head 'replaced'"],
        "d": [
            "rows laid out as pairs",
            "4 rows of 16 tokens a step, 8 of them new, where the others have 2 of 16, 16 new: as much text, cut in "
            "other places",
        ],
    }
    write_report(one)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    top = text.partition("## In short")[0]
    for name, told in one.notes.items():
        assert f"- **{name}†**: {'; '.join(told)}." in top
    assert "not equal" not in top
    assert "| bits per token | a | b† | c | d† |" in text
    assert f"\nb† {one.notes['b'][0]}\n" in str(one)
    alone = {"a": plain, "b": larger}
    assert inherent_notes(alone)["b"][0].startswith("1,270 parameters, 1.26 times a's: its generator")
    assert inherent_notes({"b": larger, "a": plain})["a"] == [
        "1,010 parameters, 0.795 times b's: no generator and no head 'replaced'"
    ]
    little = {"a": plain, "b": replace(plain, further={"head 'loss'": 7})}
    assert inherent_notes(little) == {"b": ["1,007 parameters, 3 fewer than a's: its head 'loss'"]}
    with pytest.raises(UnequalBudgetsError, match=r"parameters of the backbone \(1,000 in a, c; 990 in b\)"):
        require_equal({"a": plain, "b": replace(larger, backbone=990), "c": plain})


def test_a_report_of_one_recipe_compares_it_with_nothing(tmp_path: Path) -> None:
    one = comparison(tmp_path, results({"a": [5.0, 5.2]}))
    write_report(one)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "**Cloze: 5.100 bits a token (95 % interval over seeds 3.829 to 6.371).**" in text
    assert text.startswith("# One objective: a")
    assert "only a has" not in text
    assert "better than all others" not in text
    assert "differs between the recipes" not in text
    assert str(one).splitlines()[1].split() == ["Cloze", "5.100", "±", "1.271"]


def test_text_cannot_break_out_of_the_page() -> None:
    page = to_html([Paragraph("**a** `b` <script>x</script> & |")], title="<b>")
    assert "<strong>a</strong> <code>b</code> &lt;script&gt;x&lt;/script&gt; &amp; |" in page
    assert "<title>&lt;b&gt;</title>" in page
    table = to_markdown([Table(head=["x", "y"], rows=[["a|b", "1"]])], figures="f")
    assert table == "| x | y |\n| :-- | --: |\n| a\\|b | 1 |\n"
