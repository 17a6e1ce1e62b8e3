"""A small document, written once and rendered both as Markdown and as one HTML file."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

from .figures import Picture

__all__ = [
    "Block",
    "Bullets",
    "Code",
    "Heading",
    "Note",
    "Paragraph",
    "PictureBlock",
    "Table",
    "to_html",
    "to_markdown",
]


@dataclass(frozen=True)
class Heading:
    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """Text in which ``**bold**`` and `` `code` `` are marked as in Markdown."""

    text: str


@dataclass(frozen=True)
class Note:
    """A paragraph that must not be passed over."""

    text: str


@dataclass(frozen=True)
class Bullets:
    items: Sequence[str]


@dataclass(frozen=True)
class Table:
    """Cells are marked as in ``Paragraph``. All columns but the ``left`` ones are numbers."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1
    caption: str = ""


@dataclass(frozen=True)
class Code:
    text: str
    summary: str = ""


@dataclass(frozen=True)
class PictureBlock:
    picture: Picture


Block = Heading | Paragraph | Note | Bullets | Table | Code | PictureBlock


def to_markdown(blocks: Sequence[Block], *, figures: str) -> str:
    """Markdown; pictures are PNG files in the folder ``figures``, relative to it."""
    return "\n\n".join(_markdown(block, figures=figures) for block in blocks) + "\n"


def _markdown(block: Block, *, figures: str) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {text}"
        case Paragraph(text):
            return text
        case Note(text):
            return f"> **Note.** {text}"
        case Bullets(items):
            return "\n".join(f"- {item}" for item in items)
        case Code(text, summary):
            fenced = f"```yaml\n{text.rstrip()}\n```"
            return f"{summary}:\n\n{fenced}" if summary else fenced
        case PictureBlock(picture):
            return f"![{picture.name}]({figures}/{picture.name}.png)\n\n*{picture.caption}*"
        case Table(head, rows, left, caption):
            marks = [":--" if column < left else "--:" for column in range(len(head))]
            lines = [head, marks, *([cell.replace("|", "\\|") for cell in row] for row in rows)]
            table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
            return f"{table}\n\n*{caption}*" if caption else table


def to_html(blocks: Sequence[Block], *, title: str) -> str:
    """One file with everything in it: no script, nothing from the network."""
    body = "\n".join(_html(block) for block in blocks)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        f"</body>\n</html>\n"
    )


def _html(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"<h{level}>{_inline(text)}</h{level}>"
        case Paragraph(text):
            return f"<p>{_inline(text)}</p>"
        case Note(text):
            return f'<p class="note">{_inline(text)}</p>'
        case Bullets(items):
            return "<ul>" + "".join(f"<li>{_inline(item)}</li>" for item in items) + "</ul>"
        case Code(text, summary):
            code = f"<pre>{html.escape(text.rstrip())}</pre>"
            return f"<details><summary>{_inline(summary)}</summary>{code}</details>" if summary else code
        case PictureBlock(picture):
            data = base64.b64encode(picture.svg).decode()
            alt = html.escape(picture.caption, quote=True)
            return (
                f'<figure><img src="data:image/svg+xml;base64,{data}" alt="{alt}">'
                f"<figcaption>{_inline(picture.caption)}</figcaption></figure>"
            )
        case Table(head, rows, left, caption):
            top = "".join(f'<th scope="col"{_align(i, left)}>{_inline(cell)}</th>' for i, cell in enumerate(head))
            body = "".join(
                "<tr>" + "".join(f"<td{_align(i, left)}>{_inline(cell)}</td>" for i, cell in enumerate(row)) + "</tr>"
                for row in rows
            )
            about = f"<caption>{_inline(caption)}</caption>" if caption else ""
            table = f"<table>{about}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
            return f'<div class="scroll">{table}</div>'


def _align(column: int, left: int) -> str:
    return "" if column < left else ' class="number"'


def _inline(text: str) -> str:
    escaped = html.escape(text, quote=False)
    escaped = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", escaped)
    return re.sub(r"`(.+?)`", r"<code>\1</code>", escaped)


_STYLE = """
:root { color-scheme: light; }
body { margin: 0; background: #f6f7f9; color: #1d2330; }
body { font: 16px/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; }
main { max-width: 60rem; margin: 2rem auto; padding: 2rem 2.75rem 3rem; background: #fff; }
main { border: 1px solid #e3e6ec; border-radius: 10px; }
h1 { margin: 0 0 .3rem; font-size: 1.9rem; line-height: 1.2; letter-spacing: -.01em; }
h2 { margin: 2.4rem 0 .7rem; padding-top: 1.1rem; border-top: 1px solid #e3e6ec; font-size: 1.25rem; }
h1 + p { margin-top: 0; color: #5a6478; }
p, ul { margin: .7rem 0; }
li { margin: .4rem 0; }
.note { padding: .7rem 1rem; background: #fff6e0; border-left: 4px solid #e0a100; border-radius: 4px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; min-width: 60%; font-variant-numeric: tabular-nums; }
caption { caption-side: bottom; padding-top: .5rem; text-align: left; font-size: .85rem; color: #5a6478; }
th, td { padding: .4rem .9rem .4rem 0; border-bottom: 1px solid #eceef2; text-align: left; vertical-align: top; }
th { font-size: .85rem; color: #5a6478; border-bottom: 2px solid #d4d9e2; }
.number { padding: .4rem 0 .4rem .9rem; text-align: right; white-space: nowrap; }
td strong { color: #00563f; }
figure { margin: 1.4rem 0; }
img { max-width: 100%; height: auto; }
figcaption { font-size: .85rem; color: #5a6478; }
code, pre { font: .85em/1.5 ui-monospace, "SFMono-Regular", Consolas, monospace; }
code { padding: .1em .3em; background: #f0f2f5; border-radius: 3px; }
pre { padding: .9rem 1.1rem; background: #f6f7f9; border-radius: 6px; overflow-x: auto; }
summary { cursor: pointer; margin: .5rem 0; }
@media (max-width: 40rem) { main { margin: 0; padding: 1.2rem; border: 0; border-radius: 0; } }
@media print { body { background: #fff; } main { border: 0; margin: 0; } }
"""
