"""``inspect``: worked examples as text, counts and picture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import matplotlib.image
import pytest
import torch

from anyorder.cli.visibility_view import View
from anyorder.core import Draws, Plan, TokenBatch, Vocab, find

ORDER = """\
predicted: x2 (2) > x4 (4) > x1 (1) > x3 (3)
content stream: 10 permitted pairs
query stream: 6 permitted pairs

content stream: who reads (down), what it may see (across)
         x1  x2  x3  x4
x1  t=3   *   E   .   E
x2  t=1   .   *   .   .
x3  t=4   E   E   *   E
x4  t=2   .   E   .   *

query stream: who reads (down), what it may see (across)
         x1  x2  x3  x4
x1  t=2   .   E   .   E
x2  t=0   .   .   .   .
x3  t=3   E   E   .   E
x4  t=1   .   E   .   .

. hidden   E earlier   * itself
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def plain(text: str) -> str:
    for mark, letter in zip("·▒□■●→", ".MGE*>", strict=True):
        text = text.replace(mark, letter)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def test_the_papers_order(anyorder: Callable, here: Path) -> None:
    ran = anyorder("inspect", "--order", "2,4,1,3")
    assert ran.code == 0
    assert plain(ran.out) == ORDER + "\npicture: visibility.png\n"
    height, width, _ = matplotlib.image.imread(here / "visibility.png").shape
    assert 900 < width < 1100
    assert 400 < height < 700
    anyorder("inspect", "--order", "2,4,1,3")
    assert sorted(file.name for file in here.iterdir()) == ["visibility-2.png", "visibility.png"]  # none is replaced


def test_memory_is_seen_by_every_reader(anyorder: Callable) -> None:
    ran = anyorder("inspect", "--order", "2,4,1,3", "--memory", 3)
    assert "content stream: 10 permitted pairs, and 12 with memory" in ran.out
    assert "query stream: 6 permitted pairs, and 12 with memory" in ran.out
    tables = [line for line in plain(ran.out).splitlines() if " t=" in line]
    assert len(tables) == 8
    assert all("M   M   M" in line for line in tables)


def test_new_york(anyorder: Callable) -> None:
    ran = anyorder("inspect", "--text", "New York is a city", "--targets", "York,New", "--out", "deep/ny.svg")
    assert plain(ran.out).startswith("predicted: York (2) > New (1)\n")
    query = plain(ran.out).split("query stream: who")[1].splitlines()
    assert query[2:4] == [" New  t=1   .   E    G   G   G", "York  t=0   .   .    G   G   G"]
    assert Path("deep/ny.svg").read_text().startswith("<?xml")


def test_masks_that_predict_at_once_have_one_stream(anyorder: Callable) -> None:
    ran = anyorder("inspect", "--text", "New York is a city", "--targets", "1,2", "--masks", "in_place")
    assert ran.out.startswith("predicted: New (1), York (2), all at once\ncontent stream: 25 permitted pairs\n")
    assert "[MASK]" in ran.out
    assert "query" not in ran.out


def test_left_to_right_masks(anyorder: Callable) -> None:
    ran = anyorder("inspect", "--text", "a b c", "--masks", "shift")
    assert "content stream: 6 permitted pairs" in ran.out


def table(masks: str, plan: Plan, batch: TokenBatch) -> str:
    """The first table of a row of the tokens a, b, c, d."""
    vocab = Vocab(size=13)
    draws = Draws(0, rows=1)
    streams = find("masks", masks)().scoring().build(batch, plan, vocab=vocab, num_targets=2, generator=draws)
    view = View.of(streams, batch=batch, plan=plan, tokens=list("abcd"), vocab=vocab)
    return plain(view.text()).split("\n\n")[1].partition("\n")[2]


def test_context_of_a_later_block_is_given_and_no_target() -> None:
    batch = TokenBatch.of(torch.tensor([[9, 10, 11, 12]]), block=torch.tensor([[0, 0, 1, 1]]))
    plan = Plan.from_order(torch.tensor([[1, 3, 0, 2]]), given=2).within_blocks(batch)  # a and c are predicted
    assert table("two_stream", plan, batch).splitlines()[1:] == [
        "a  t=1   *   G   .   .",
        "b  t=0   .   *   .   .",
        "c  t=5   E   G   *   G",
        "d  t=3   E   G   .   *",
    ]


def test_appended_slots_are_called_by_their_tokens() -> None:
    batch = TokenBatch.of(torch.tensor([[9, 10, 11, 12]]))
    plan = Plan.from_order(torch.tensor([[1, 3, 0, 2]]), given=2)
    plan = Plan.of(plan.target.long(), plan.target)  # a and c at once
    clean, noised = "a   b   c   d", "[MASK]  b  [MASK]  d"
    assert table("block_copy", plan, batch).splitlines()[0].split() == f"{clean} {noised}".split()


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--order", "1,2,2"], "--order 1,2,2: each place from 1 to 3 must stand in it once"),
        (["--order", "1,2", "--text", "a b c"], "--order 1,2: each place from 1 to 3 must stand in it once"),
        (["--order", "a"], "--order a: places divided by commas, such as 2,4,1,3"),
        (["--order", "0,1"], "--order 0,1: each place from 1 to 2"),
        (["--text", "New York", "--targets", "Yorck"], "--targets Yorck: not a token of the sentence; did you mean"),
        (["--text", "a a", "--targets", "a"], "it stands there 2 times; name its place instead"),
        (["--text", "a b", "--targets", "a,a"], "a token is predicted once"),
        (["--text", "a b", "--targets", "3"], "--targets 3: places are 1 to 2"),
        (["--text", " "], "--text is empty"),
        (["--order", "2,1", "--masks", "in_plce"], "no masks part is called 'in_plce'"),
        (["--order", "2,1", "--masks", "shift"], "--masks shift: it predicts from left to right to the end"),
        (["--order", "2,1", "--out", "x.jpg"], "--out x.jpg: name a .png, .svg or .pdf file"),
        (["--order", "2,1", "--memory", "-1"], "--memory -1: a number of tokens, 0 or more"),
        (["--order", "2,1", "--set", "a=1"], "--set needs a recipe to set something in"),
        (["--leaks"], "--leaks needs a recipe"),
        (["r.yaml", "--order", "2,1"], "--order has no place beside a recipe"),
    ],
)
def test_wrong_questions_are_one_line(refused: Callable, here: Path, argv: list[str], said: str) -> None:
    assert said in refused("inspect", *argv)
    assert list(here.iterdir()) == []
