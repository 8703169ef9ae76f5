"""Pieces of HTML; text is escaped here unless a docstring says otherwise."""

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from common.text import printable


@dataclass(frozen=True, slots=True)
class ReportColumn:
    """A column of a table: its title, and whether it holds numbers."""

    title: str
    number: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell that is HTML already; `value` is what it is sorted by where its text is not."""

    html: str
    value: float | None = None


def text(plain: str) -> str:
    """Text as HTML, without characters that steer a page; a number and its sign stay on one line."""
    return _escaped(plain).replace(" %", "&nbsp;%")


def _escaped(plain: str) -> str:
    return html.escape(printable(plain))


def code(plain: str) -> str:
    """A case key, a command, a name: it may be broken behind its separators."""
    return f"<code>{breakable(plain)}</code>"


def breakable(plain: str) -> str:
    """Text that may be broken behind the separators of a case key."""
    return re.sub(r"([/,=_])(?=[^/,=_])", r"\1<wbr>", _escaped(plain))


def case(key: str) -> str:
    """A case key, its name strong; nothing of it is left out."""
    name, slash, rest = key.partition("/")
    return f'<span class="case"><strong>{breakable(name)}</strong>{slash}<wbr>{breakable(rest)}</span>'


def chip(tone: str, sign: str, word: str) -> str:
    """A word with its sign in its colour."""
    return f'<span class="chip {tone}"><span aria-hidden="true">{sign}</span> {text(word)}</span>'


def table(
    label: str,
    columns: Sequence[ReportColumn],
    rows: Iterable[Sequence[str | Cell]],
    *,
    sortable: bool = False,
) -> str:
    """A table of cells that are HTML already; the first of each row is its header."""
    head = "".join(f'<th scope="col"{_number(c.number)}>{text(c.title)}</th>' for c in columns)
    body = "".join(f"<tr>{_cells(columns, row)}</tr>" for row in rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{text(label)}">'
        f"<table{' data-sortable' if sortable else ''}><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _cells(columns: Sequence[ReportColumn], row: Sequence[str | Cell]) -> str:
    parts: list[str] = []
    for place, (column, cell) in enumerate(zip(columns, row, strict=True)):
        inner, value = (cell.html, cell.value) if isinstance(cell, Cell) else (cell, None)
        sort = "" if value is None else f' data-value="{value:.6g}"'
        tag = 'th scope="row"' if place == 0 else "td"
        parts.append(f"<{tag}{_number(column.number)}{sort}>{inner}</{tag[:2]}>")
    return "".join(parts)


def section(identity: str, title: str, *parts: str) -> str:
    """A section of the page with its heading; the parts are HTML already."""
    return f'<section id="{identity}"><h2>{text(title)}</h2>{"".join(parts)}</section>'


def details(summary: str, *parts: str, opened: bool = False) -> str:
    """What is folded; the summary is text, the parts are HTML already."""
    state = " open" if opened else ""
    return f"<details{state}><summary>{text(summary)}</summary>{''.join(parts)}</details>"


def paragraph(plain: str, kind: str = "quiet") -> str:
    """A paragraph of text."""
    return f'<p class="{kind}">{text(plain)}</p>'


def listed(items: Iterable[str]) -> str:
    """A list of texts."""
    return "<ul>" + "".join(f"<li>{text(item)}</li>" for item in items) + "</ul>"


def commands(lines: Iterable[str]) -> str:
    """Commands to copy, one a line."""
    return "<pre><code>" + "\n".join(map(_escaped, lines)) + "</code></pre>"


def _number(number: bool) -> str:
    return ' class="number"' if number else ""
