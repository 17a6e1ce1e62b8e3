"""The report of a comparison: the answer first, then how it was come by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ..atomic import write_json, write_text
from ..recipe import Recipe
from ..recipe.source import dump_yaml
from ..yardsticks import ALL_YARDSTICKS
from .comparison import Comparison
from .document import Block, Bullets, Code, Heading, Note, Paragraph, PictureBlock, Table, to_html, to_markdown
from .figures import Picture, has_lengths, pictures
from .inherent import MARK
from .results import Results
from .statistics import Estimate
from .verdicts import MANY, about_seeds, title_of, verdict

__all__ = ["report_blocks", "write_report"]

FIGURES = "figures"


def write_report(comparison: Comparison) -> list[Path]:
    """Write ``report.md``, ``report.html``, ``comparison.json`` and pictures into the comparison's folder.

    Returns:
        the files.
    """
    folder = comparison.folder
    (folder / FIGURES).mkdir(parents=True, exist_ok=True)
    drawn = pictures(comparison.results)
    files = [path for picture in drawn.values() for path in picture.save(folder / FIGURES)]
    blocks = list(report_blocks(comparison, drawn))
    title = _title(comparison)
    texts = {
        folder / "report.md": to_markdown(blocks, figures=FIGURES),
        folder / "report.html": to_html(blocks, title=title),
    }
    for path, text in texts.items():
        write_text(path, text)
    write_json(folder / "comparison.json", comparison.to_json())
    return [*texts, folder / "comparison.json", *files]


def report_blocks(comparison: Comparison, drawn: dict[str, Picture]) -> Iterator[Block]:
    """The report, block by block."""
    yield from _opening(comparison)
    yield from _in_short(comparison)
    yield from _yardsticks(comparison, drawn)
    yield from _spans(comparison, drawn)
    yield from _what_each_saw(comparison)
    yield from _cost(comparison)
    yield from _training(drawn)
    yield from _settings(comparison)


def _title(comparison: Comparison) -> str:
    if len(comparison.recipes) == 1:
        return f"One objective: {comparison.recipes[0].name}"
    if comparison.many:
        return f"Comparison of {len(comparison.recipes)} objectives"
    return f"Comparison: {', '.join(recipe.name for recipe in comparison.recipes)}"


def _table(
    comparison: Comparison,
    corner: str,
    rows: Sequence[tuple[str, Sequence[str]]],
    *,
    names: Sequence[str] | None = None,
    caption: str = "",
    left: int = 1,
) -> Table:
    """A column a model, or a row where there are many; ``names`` are those with results by default."""
    shown = map(comparison.label, names or comparison.results.recipes)
    whole = [[corner, *shown], *([label, *cells] for label, cells in rows)]
    if comparison.many:
        whole = [list(column) for column in zip(*whole, strict=True)]
    return Table(head=whole[0], rows=whole[1:], caption=caption, left=left)


def _opening(comparison: Comparison) -> Iterator[Block]:
    results = comparison.results
    yield Heading(_title(comparison), level=1)
    budget = next(iter(comparison.budgets.values()))
    seeds = f"{len(results.seeds)} seed{'s' if len(results.seeds) > 1 else ''}"
    count = len(comparison.recipes)
    yield Paragraph(
        f"{count} objective{'s' if count > 1 else ''}, {seeds}, a backbone of {budget.backbone:,} parameters, "
        f"{budget.tokens:,} tokens{' each' if count > 1 else ''} in {budget.steps:,} steps; measured on up to "
        f"{comparison.questions.windows} held-out windows of {comparison.questions.length or budget.length} tokens."
        if not comparison.unequal
        else f"{count} recipes, {seeds}; **their budgets are not equal**."
    )
    if comparison.failures:
        yield Note(f"Cells that failed are missing below: {'; '.join(comparison.failures.values())}")
    if comparison.unequal:
        names = ", ".join(meaning for meaning, _ in comparison.unequal)
        yield Note(
            f"The recipes differ in more than their objective ({names}), as was asked for with `--unequal`. A "
            "difference below need not come from the objective."
        )
    if comparison.notes:
        yield Paragraph(f"Not alike, because their objectives are not; marked {MARK} in the tables:")
        yield Bullets([f"**{comparison.label(name)}**: {'; '.join(told)}." for name, told in comparison.notes.items()])


def _in_short(comparison: Comparison) -> Iterator[Block]:
    results = comparison.results
    yield Heading("In short")
    items = []
    for name in results.yardsticks:
        found = verdict(results, name)
        items.append(f"**{title_of(name)}: {found.headline}.** {' '.join(found.details)}")
    items += _speed_sentences(results)
    yield Bullets(items)
    yield Note(about_seeds(results)) if len(results.seeds) < 2 else Paragraph(about_seeds(results))


def _speed_sentences(results: Results) -> list[str]:
    """Who trains fastest, told as a fact only where timings of several seeds agree on it."""
    known = {name: speed for name in results.recipes if (speed := results.speed(name)) > 0}
    if len(known) < 2:
        return []
    fastest = max(known, key=known.__getitem__)
    slower = [name for name in known if name != fastest]
    told = slower if len(known) <= MANY else [min(known, key=known.__getitem__)]
    ratios = " and ".join(f"{known[fastest] / known[name]:.2f} times {name}" for name in told)
    ratios += "" if told == slower else ", the slowest"
    numbers = f"{known[fastest]:,.0f} tokens a second, {ratios}"
    if len(results.seeds) == 1:
        return [f"**Speed: {fastest} trained fastest,** {numbers}, timed once: other work on the machine counts."]
    level = [name for name in slower if not results.surely_faster(fastest, name)]
    if level:
        return [
            f"**Speed: timings do not tell {fastest} from {', '.join(level)}.** On average {fastest} made {numbers}."
        ]
    return [f"**Speed: {fastest} trains fastest,** {numbers}."]


def _yardsticks(comparison: Comparison, drawn: dict[str, Picture]) -> Iterator[Block]:
    results = comparison.results
    yield Heading("Yardsticks")
    yield Paragraph(
        "Training losses of different objectives cannot be compared, so every model is asked the same questions about "
        "the same hidden tokens of the same held-out text. Lower is better."
        + (" The best is bold where it is better than all others beyond noise." if len(results.recipes) > 1 else "")
    )
    over = "over seeds" if len(results.seeds) > 1 else "over held-out windows (one seed)"
    winners = {name: verdict(results, name).winner for name in results.yardsticks}
    bounds = any(results.standing(r, name).kind == "bound" for name in results.yardsticks for r in results.recipes)
    yield _table(
        comparison,
        "bits per token",
        [
            (title_of(name), [_bold(comparison.cell_text(r, name), winners[name] == r) for r in results.recipes])
            for name in results.yardsticks
        ],
        caption=f"± is half of a 95 % interval {over}.{' After ≤ stands a bound.' if bounds else ''}",
    )
    if "yardsticks" in drawn:
        yield PictureBlock(drawn["yardsticks"])
    yield _table(
        comparison,
        "bits per byte",
        [
            (title_of(name), [_number(results.score(r, name, unit="bits_per_byte")) for r in results.recipes])
            for name in results.yardsticks
        ],
        caption="The same, by the UTF-8 bytes that the hidden tokens stand for.",
    )
    spreads = {name: [results.spread(r, name) for r in results.recipes] for name in results.yardsticks}
    if sampled := [name for name in results.yardsticks if any(spreads[name])]:
        yield _table(
            comparison,
            "spread",
            [(title_of(name), [_number(spread) for spread in spreads[name]]) for name in sampled],
            caption=(
                "Standard deviation, in bits a token, of one window's score from one sampled order or noise level to "
                "the next. A model of one joint distribution would have none over orders."
            ),
        )
    rows = []
    for name in results.yardsticks:
        best = results.ranking(name)[:1]
        for pair in results.differences(name):
            if comparison.many and best[0] not in (pair.left, pair.right):
                continue
            interval = "–"
            if pair.estimate.low is not None:
                interval = f"{pair.estimate.low:+.3f} to {pair.estimate.high:+.3f}"
            better = pair.left if pair.estimate.mean < 0 else pair.right
            says = f"{better} is better" if pair.clear else "within noise"
            rows.append(
                [
                    title_of(name),
                    f"{pair.left} − {pair.right}",
                    f"{pair.estimate.mean:+.3f}",
                    interval,
                    pair.basis,
                    says,
                ]
            )
    if rows:
        which = " with the best of each yardstick (`comparison.json` has all)" if comparison.many else ""
        yield Paragraph(f"Differences in pairs{which}, in bits per token; below zero, the first is better:")
        yield Table(head=["yardstick", "pair", "difference", "95 % interval", "over", "says"], rows=rows, left=2)


def _spans(comparison: Comparison, drawn: dict[str, Picture]) -> Iterator[Block]:
    results = comparison.results
    if "spans" not in drawn:
        return
    name = next(name for name in results.yardsticks if has_lengths(results, name))
    yield Heading("Longer spans")
    yield PictureBlock(drawn["spans"])
    yield _table(
        comparison,
        "hidden tokens",
        [
            (part, [_with_interval(results.score(recipe, name, part=part)) for recipe in results.recipes])
            for part in results.parts(name)
        ],
        caption="Bits per token. Spans of all lengths begin at the same tokens.",
    )


def _what_each_saw(comparison: Comparison) -> Iterator[Block]:
    results = comparison.results
    yield Heading("What each model could see")
    yield Paragraph(
        "The numbers are only as comparable as the questions. Windows are independent, and memory is empty in all."
    )
    rows = []
    for name in results.yardsticks:
        alike: dict[tuple[str, str], list[str]] = {}
        for recipe in results.recipes:
            standing = results.standing(recipe, name)
            told = "; ".join(text for text in (standing.sees, standing.reason) if text)
            alike.setdefault((standing.kind, told), []).append(recipe)
        rows += [[title_of(name), ", ".join(models), *found] for found, models in alike.items()]
    yield Table(head=["yardstick", "models", "number is", "it sees"], rows=rows, left=4)
    known = [yardstick for yardstick in ALL_YARDSTICKS if yardstick.name in results.yardsticks]
    yield Bullets([f"**{y.title}**: {y.says}. Its number is {y.kinds}." for y in known])


def _cost(comparison: Comparison) -> Iterator[Block]:
    results = comparison.results
    yield Heading("Speed and memory")
    rows = []
    for recipe in results.recipes:
        memory = results.over_seeds(recipe, lambda cell: cell.peak_memory)
        targets = results.over_seeds(recipe, lambda cell: cell.targets)
        rows.append(
            [
                comparison.label(recipe),
                f"{results.speed(recipe):,.0f}",
                f"{results.speed(recipe, of='targets'):,.0f}",
                _number(targets, "{:,.0f}"),
                _number(results.over_seeds(recipe, lambda cell: cell.seconds), "{:,.0f}"),
                "–" if memory is None else f"{memory.mean / 2**20:,.0f}",
            ]
        )
    yield Table(
        head=["", "tokens/s", "predictions/s", "predictions in all", "training, s", "peak memory, MiB"],
        rows=rows,
        caption=(
            "New tokens of the corpus and predictions for each second of training. Equal tokens are not equal "
            "predictions: that is part of what an objective is. Memory is the largest resident size of a cell's "
            "process, or what was allocated on the GPU; – where training was interrupted after its last step."
        ),
    )


def _training(drawn: dict[str, Picture]) -> Iterator[Block]:
    if "losses" in drawn:
        yield Heading("Training")
        yield PictureBlock(drawn["losses"])


def _settings(comparison: Comparison) -> Iterator[Block]:
    yield Heading("Settings")
    names = [recipe.name for recipe in comparison.recipes]
    if comparison.unequal:
        yield _table(comparison, "what differs of the budget", comparison.unequal, names=names)
    if comparison.other_differences:
        yield Paragraph("Settings that differ besides the objective:")
        settings = [(f"`{key}`", [str(value) for value in values]) for key, values in comparison.other_differences]
        yield _table(comparison, "setting", settings, names=names, left=len(names) + 1)
    elif len(names) > 1:
        yield Paragraph("Nothing but the objective differs between the recipes.")
    for recipe in comparison.recipes:
        yield Code(dump_yaml({"objective": recipe.tree["objective"]}), summary=f"Objective of {recipe.name}")
    yield Code(_common(comparison.recipes[0]), summary=f"The rest, as resolved for {comparison.recipes[0].name}")
    facts = {(cell.device, *cell.versions.items()) for cell in comparison.results.cells}
    for device, *versions in sorted(facts):
        yield Paragraph(f"Run on {device}, with {', '.join(f'{name} {number}' for name, number in versions)}.")


def _common(recipe: Recipe) -> str:
    return dump_yaml({key: value for key, value in recipe.tree.items() if key not in ("objective", "name", "seed")})


def _with_interval(found: Estimate | None) -> str:
    if found is None:
        return "–"
    return f"{found.mean:.3f}" + ("" if found.half_width is None else f" ± {found.half_width:.3f}")


def _number(found: Estimate | None, form: str = "{:.3f}") -> str:
    return "–" if found is None else form.format(found.mean)


def _bold(text: str, yes: bool) -> str:
    return f"**{text}**" if yes else text
