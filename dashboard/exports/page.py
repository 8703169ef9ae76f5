"""A whole page as Markdown for an issue: its address, its moment, every section as it was shown."""

from collections.abc import Sequence
from datetime import datetime
from urllib.parse import urlencode, urljoin

import pandas as pd

from dashboard.components import wording
from dashboard.exports import html_to_markdown
from dashboard.exports.page_recorder import PageItem, PageRecord
from reports.text import markdown

#: Lines of a log that are kept: its end.
_LOG_LINES = 40
#: Signs of what a chart shows, in words, that Markdown keeps: the table below it has the numbers.
_MOST_SIGNS = 200


def address(home: str, query: dict[str, list[str]], pinned: str) -> str:
    """Where the view is found: the page's own `pinned` address if it has one, else what the browser shows."""
    if pinned:
        return urljoin(home, pinned)
    return home + (f"?{urlencode(query, doseq=True)}" if query else "")


def of_page(shown: PageRecord, address: str, moment: datetime) -> str:
    """The page that `address` shows, as it was at `moment`."""
    titles = [piece.text for piece in shown.pieces if piece.kind == "title"]
    title = markdown.text((titles or [shown.page])[-1])
    where = f"[{title}]({address})" if address.startswith("http") else markdown.text(address)
    blocks = [
        f"# {title}",
        f"{where}, as of {wording.utc(moment)}",
    ]
    sections: list[list[PageItem]] = [[]]
    for piece in shown.pieces:
        if piece.kind == "heading":
            sections.append([])
        sections[-1].append(piece)
    for section in sections:
        blocks += _section(section, address)
    return html_to_markdown.joined(blocks) + "\n"


def _section(pieces: Sequence[PageItem], home: str) -> list[str]:
    blocks = [text for piece in pieces if (text := _piece(piece, home))]
    # A table is told as it was shown; one that only Streamlit can draw, as its CSV file has it.
    if not pieces or any(piece.kind == "html" and "<table" in piece.text for piece in pieces):
        return blocks
    frame, seen = pieces[0].frame, pieces[0].seen
    if seen is not None:
        blocks += [text] if (text := html_to_markdown.of_html(seen(), home)) else []
    elif frame is not None:
        blocks += _rows(frame())
    return blocks


def _piece(piece: PageItem, home: str) -> str:
    match piece.kind:
        case "title":
            return ""
        case "heading":
            return f"## {html_to_markdown.of_words(piece.text)}"
        case "html":
            return html_to_markdown.of_html(piece.text, home)
        case "words":
            return html_to_markdown.of_words(piece.text)
        case "chart":
            return f"> Chart: {markdown.text(_shortened(piece.text))}"
        case "complaint":
            return f"> ! {markdown.text(piece.text)}"
        case "code":
            return _code(piece.text)


def _code(text: str) -> str:
    lines = text.splitlines()
    left = f"the last {_LOG_LINES} of {len(lines):,} lines:\n\n" if len(lines) > _LOG_LINES else ""
    return left + markdown.fenced("\n".join(lines[-_LOG_LINES:]))


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_SIGNS else f"{text[:_MOST_SIGNS].rpartition(' ')[0]} …"


def _rows(frame: pd.DataFrame) -> list[str]:
    # A column without a value in any row is on no page.
    shown = frame.dropna(axis="columns", how="all").iloc[: html_to_markdown.MOST_ROWS]
    if shown.empty:
        return []
    rows = [[markdown.text(str(name).replace("_", " ")) for name in shown.columns]]
    columns = [_cells(column) for column in zip(*shown.itertuples(index=False, name=None), strict=True)]
    rows += [list(row) for row in zip(*columns, strict=True)]
    return [html_to_markdown.table(rows, max(0, len(frame) - html_to_markdown.MOST_ROWS))]


def _cells(column: Sequence[object]) -> list[str]:
    """The cells of a column as pages show them; numbers that are all whole are counts."""
    numbers = [value for value in column if isinstance(value, float) and not pd.isna(value)]
    counts = all(value.is_integer() for value in numbers)
    return [_cell(value, counts=counts) for value in column]


def _cell(value: object, *, counts: bool) -> str:
    if isinstance(value, datetime):
        return wording.NONE if pd.isna(value) else wording.utc(value)
    if isinstance(value, float):
        return wording.NONE if pd.isna(value) else f"{value:,.0f}" if counts else wording.significant(value)
    return wording.NONE if value is None or value is pd.NA else markdown.text(str(value))
