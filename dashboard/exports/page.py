"""A whole page as Markdown for an issue, and the footer that offers it: every section as it was shown."""

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from urllib.parse import urlencode, urljoin

import pandas as pd
import streamlit as st

from dashboard.components import markup, wording
from dashboard.exports import page_recorder
from dashboard.exports.page_recorder import PageItem, PageRecord, frame_of
from dashboard.header import page_context
from reports.table import DataTable
from reports.text import markdown
from reports.text.html_markdown import converted

#: Lines of a log that are kept: its end.
_LOG_LINES = 40
#: Signs of what a chart shows, in words, that Markdown keeps: the table below it has the numbers.
_MOST_SIGNS = 200


def address(home: str, query: Mapping[str, Sequence[str]], pinned: str) -> str:
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
    return markdown.joined(blocks) + "\n"


def section_export(home: str, query: Mapping[str, Sequence[str]]) -> Callable[[], bytes]:
    """What gives the section that just began as Markdown, once the page is shown."""
    record = page_recorder.current()
    if record is None:
        return lambda: b""
    start = len(record.pieces) - 1

    def written() -> bytes:
        later = enumerate(record.pieces[start + 1 :], start + 1)
        end = next((place for place, piece in later if piece.kind == "heading"), len(record.pieces))
        blocks = _section(record.pieces[start:end], address(home, query, record.pinned))
        return (markdown.joined(blocks) + "\n").encode()

    return written


def _section(pieces: Sequence[PageItem], address: str) -> list[str]:
    blocks = [text for piece in pieces if (text := _piece(piece, address))]
    # A table is as the page shows it; one that only Streamlit can draw, as its CSV file has it.
    tabular = any(piece.kind == "table" or _tabular(piece.text) for piece in pieces if piece.kind != "code")
    if not pieces or tabular or pieces[0].csv_of is None:
        return blocks
    if isinstance(table := pieces[0].csv_of, DataTable):
        return [*blocks, *([table.markdown(markdown.MOST_ROWS, address)] if table.rows else [])]
    return blocks + _rows(frame_of(pieces[0].csv_of))


def _tabular(html: str) -> bool:
    """Whether HTML shows rows: as a table, as the cards of nights, or as a list."""
    return any(sign in html for sign in ("<table", "py-nights", "py-bullets"))


def _piece(piece: PageItem, home: str) -> str:
    match piece.kind:
        case "title":
            return ""
        case "heading":
            return f"## {plain_words(piece.text)}"
        case "html":
            return converted(piece.text, home)
        case "table":
            return piece.table.markdown(markdown.MOST_ROWS, home) if piece.table and piece.table.rows else ""
        case "words":
            return plain_words(piece.text)
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
    shown = frame.dropna(axis="columns", how="all").iloc[: markdown.MOST_ROWS]
    if shown.empty:
        return []
    heads = [str(name).replace("_", " ") for name in shown.columns]
    columns = [_cells(column) for column in zip(*shown.itertuples(index=False, name=None), strict=True)]
    table = markdown.table(heads, [list(row) for row in zip(*columns, strict=True)])
    left = len(frame) - markdown.MOST_ROWS
    return [table, *([f"and {left:,} more rows, which the CSV file has"] if left > 0 else [])]


def plain_words(words: str) -> str:
    """Streamlit's Markdown, in which foreign signs are escaped, as GitHub's: plain text and code, no more."""
    parts = re.split(r"(?<!\\)`([^`]*)`", words)
    return "".join(
        markdown.code(part) if place % 2 else markdown.text(_unescaped(part))
        for place, part in enumerate(parts)
        if part
    )


def _unescaped(words: str) -> str:
    return re.sub(r"\\([\\`*_\[\]$:~<>#&|])", r"\1", words).replace("\u2060", "")


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


@contextmanager
def page_with_footer(title: Callable[[], str]) -> Generator[None]:
    """Around a page: what it shows can be had as Markdown below it, also where it stops half-way.

    Its `title` is asked for once there is anything: outside of a browser's session a page has none.
    """
    with page_recorder.recorded() as record:
        try:
            yield
        finally:
            if not record.empty:
                record.page = title()
                _foot(record)


def _foot(record: page_recorder.PageRecord) -> None:
    query = {name: st.query_params.get_all(name) for name in st.query_params}
    where = address(st.context.url or "", query, record.pinned)
    moment = datetime.now(UTC)
    name = page_recorder.slug(record.page)
    with st.container(horizontal=True, vertical_alignment="center", key="page-foot"):
        page_context.clock_choice()
        st.download_button(
            "Page as Markdown",
            lambda: of_page(record, where, moment).encode(),
            file_name=f"{name}-{moment:%Y-%m-%d}.md",
            mime="text/markdown",
            key=f"markdown-{name}",
            on_click="ignore",
            help="The page as it is now, for an issue",
        )
        inline = st.toggle("Show Markdown", key=f"show-markdown-{name}", help="To copy it from here")
    if inline:
        st.html(markup.code(of_page(record, where, moment)))


@cache
def browser_script() -> str:
    """The script that a page needs once, for all that happens in the browser; constant text."""
    names = ("pictures.js", "copying.js", "context.js", "tables.js", "scrolling.js")
    text = "".join((Path(__file__).parent / name).read_text() for name in names)
    return f"<script>\n{text}</script>"
