"""Records the elements of a page during one run of its script, and writes them as Markdown by section."""

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode, urljoin

import pandas as pd
import streamlit as st

from dashboard.components import markup, wording
from dashboard.header import page_context
from reports.table import DataTable
from reports.text import markdown
from reports.text.html_markdown import convert_html

Kind = Literal["title", "heading", "html", "words", "code", "chart", "complaint", "table"]

#: The source of a CSV file: a function, a table, or tables with equal columns.
CsvSource = Callable[[], pd.DataFrame | DataTable[Any]] | DataTable[Any] | Sequence[DataTable[Any]]


def frame_of(source: CsvSource) -> pd.DataFrame:
    """The rows of a CSV file."""
    if callable(source):
        content = source()
        return content if isinstance(content, pd.DataFrame) else frame_of(content)
    tables = [source] if isinstance(source, DataTable) else source
    rows = [row for table in tables for row in table.records()]
    return pd.DataFrame(rows, columns=tables[0].names)


@dataclass(frozen=True, slots=True)
class PageItem:
    """One element of a page: `words` are in Streamlit's Markdown, `html` is our HTML, all else is plain text.

    `csv_of` is the source of the CSV file of a section.
    """

    kind: Kind
    text: str
    csv_of: CsvSource | None = None
    table: DataTable[Any] | None = None


@dataclass(slots=True)
class PageRecord:
    """A page: its title, its elements from top to bottom, and its permanent address if it has one."""

    page: str = ""
    pieces: list[PageItem] = field(default_factory=list[PageItem])
    pinned: str = ""
    #: The file of the last section, without suffix, and the number of its charts so far.
    section: str = ""
    charts: int = 0
    #: The subject in the pictures of charts: hardware, PyTorch.
    subject: str = ""

    @property
    def empty(self) -> bool:
        """Whether the page has only a title or error messages."""
        return all(piece.kind in ("title", "complaint") for piece in self.pieces)


#: The record of this thread: a script runs in its own thread, and the rerun of a fragment is not recorded.
_current: ContextVar[PageRecord | None] = ContextVar("shown", default=None)


@contextmanager
def record_page() -> Generator[PageRecord]:
    """Record the elements until the end of the block."""
    record = PageRecord()
    token = _current.set(record)
    try:
        yield record
    finally:
        _current.reset(token)


def current() -> PageRecord | None:
    """The record of the page that is being rendered; None without one."""
    return _current.get()


def note(kind: Kind, text: str) -> None:
    """Add an element."""
    if (record := _current.get()) is not None:
        record.pieces.append(PageItem(kind, text))


def table(table: DataTable[Any]) -> None:
    """A table."""
    if (record := _current.get()) is not None:
        record.pieces.append(PageItem("table", table.label, table=table))


def section(title: str, csv_of: CsvSource | None, file_name: str) -> None:
    """A section begins; its charts are saved under the name of its file."""
    if (record := _current.get()) is not None:
        record.pieces.append(PageItem("heading", title, csv_of))
        record.section, record.charts = file_name.rpartition(".")[0] or file_name, 0


def pin(address: str) -> None:
    """Set the permanent address of the page."""
    if (record := _current.get()) is not None:
        record.pinned = address


def chart_name(wanted: str = "") -> str:
    """The file name, without suffix, of the next chart: `wanted`, or that of its section."""
    if (record := _current.get()) is None:
        return slug(wanted or "chart")
    name = wanted or record.section or "chart"
    if not wanted:
        record.charts += 1
        name += f"-{record.charts}" if record.charts > 1 else ""
    return slug(name)


def set_subject(*words: str) -> None:
    """Set the subject of the following charts, in a few words: hardware, PyTorch. Empty ones are left out."""
    if (record := _current.get()) is not None:
        record.subject = " · ".join(filter(None, words))


def chart_title() -> tuple[str, str]:
    """The headings of a chart's picture: its section, or the page, and its subject."""
    if (record := _current.get()) is None:
        return "", ""
    titles = [piece.text for piece in record.pieces if piece.kind in ("title", "heading")]
    return (titles[-1] if titles else ""), record.subject


def slug(text: str) -> str:
    """A text as a part of a file name on any system."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.").lower()[:120] or "page"


#: The number of lines at the end of a log that are exported.
_LOG_LINES = 40
#: The most characters of a chart's description in Markdown; the table below it has the numbers.
_MOST_SIGNS = 200


def address(home: str, query: Mapping[str, Sequence[str]], permanent_address: str) -> str:
    """The `permanent_address` of the page if it has one, else the address of the browser."""
    if permanent_address:
        return urljoin(home, permanent_address)
    return home + (f"?{urlencode(query, doseq=True)}" if query else "")


def of_page(record: PageRecord, address: str, moment: datetime) -> str:
    """The page that `address` shows, as it was at `moment`."""
    titles = [piece.text for piece in record.pieces if piece.kind == "title"]
    title = markdown.text((titles or [record.page])[-1])
    where = f"[{title}]({address})" if address.startswith("http") else markdown.text(address)
    blocks = [
        f"# {title}",
        f"{where}, as of {wording.utc(moment)}",
    ]
    sections: list[list[PageItem]] = [[]]
    for piece in record.pieces:
        if piece.kind == "heading":
            sections.append([])
        sections[-1].append(piece)
    for section in sections:
        blocks += _section(section, address)
    return markdown.join_blocks(blocks) + "\n"


def section_export(home: str, query: Mapping[str, Sequence[str]]) -> Callable[[], bytes]:
    """A function that returns the current section as Markdown after the page is complete."""
    record = current()
    if record is None:
        return lambda: b""
    start = len(record.pieces) - 1

    def written() -> bytes:
        later = enumerate(record.pieces[start + 1 :], start + 1)
        end = next((place for place, piece in later if piece.kind == "heading"), len(record.pieces))
        blocks = _section(record.pieces[start:end], address(home, query, record.pinned))
        return (markdown.join_blocks(blocks) + "\n").encode()

    return written


def _section(pieces: Sequence[PageItem], address: str) -> list[str]:
    blocks = [text for piece in pieces if (text := _piece(piece, address))]
    # A table as on the page; one that only Streamlit can draw as in its CSV file.
    tabular = any(piece.kind == "table" or _tabular(piece.text) for piece in pieces if piece.kind != "code")
    if not pieces or tabular or pieces[0].csv_of is None:
        return blocks
    if isinstance(table := pieces[0].csv_of, DataTable):
        return [*blocks, *([table.markdown(markdown.MOST_ROWS, address)] if table.rows else [])]
    return blocks + _rows(frame_of(pieces[0].csv_of))


def _tabular(html: str) -> bool:
    """Whether HTML contains rows: a table, the cards of nights, or a list."""
    return any(sign in html for sign in ("<table", "py-nights", "py-bullets"))


def _piece(piece: PageItem, home: str) -> str:
    match piece.kind:
        case "title":
            return ""
        case "heading":
            return f"## {plain_words(piece.text)}"
        case "html":
            return convert_html(piece.text, home)
        case "table":
            return piece.table.markdown(markdown.MOST_ROWS, home) if piece.table and piece.table.rows else ""
        case "words":
            return plain_words(piece.text)
        case "chart":
            return f"> Chart: {markdown.text(_shorten_text(piece.text))}"
        case "complaint":
            return f"> ! {markdown.text(piece.text)}"
        case "code":
            return _code(piece.text)


def _code(text: str) -> str:
    lines = text.splitlines()
    rest = f"the last {_LOG_LINES} of {len(lines):,} lines:\n\n" if len(lines) > _LOG_LINES else ""
    return rest + markdown.code_block("\n".join(lines[-_LOG_LINES:]))


def _shorten_text(text: str) -> str:
    return text if len(text) <= _MOST_SIGNS else f"{text[:_MOST_SIGNS].rpartition(' ')[0]} …"


def _rows(frame: pd.DataFrame) -> list[str]:
    # Pages leave out columns without a value.
    head = frame.dropna(axis="columns", how="all").iloc[: markdown.MOST_ROWS]
    if head.empty:
        return []
    heads = [str(name).replace("_", " ") for name in head.columns]
    columns = [_cells(column) for column in zip(*head.itertuples(index=False, name=None), strict=True)]
    table = markdown.table(heads, [list(row) for row in zip(*columns, strict=True)])
    rest = len(frame) - markdown.MOST_ROWS
    return [table, *([f"and {rest:,} more rows in the CSV file"] if rest > 0 else [])]


def plain_words(words: str) -> str:
    """Converts Streamlit's Markdown of escaped text to GitHub's: only plain text and code."""
    parts = re.split(r"(?<!\\)`([^`]*)`", words)
    return "".join(
        markdown.code(part) if place % 2 else markdown.text(_unescape_text(part))
        for place, part in enumerate(parts)
        if part
    )


def _unescape_text(words: str) -> str:
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
    """Record a page and offer its Markdown below it, also if the script stops early.

    `title` is called only if there is content, because outside a browser session a page has none.
    """
    with record_page() as record:
        try:
            yield
        finally:
            if not record.empty:
                record.page = title()
                _foot(record)


def _foot(record: PageRecord) -> None:
    name = slug(record.page)
    with st.container(horizontal=True, vertical_alignment="center", key="page-foot"):
        page_context.clock_choice()
        fill_button = page_button(record, name)
        inline = st.toggle("Show Markdown", key=f"show-markdown-{name}", help="To copy it from here")
    if inline:
        st.html(markup.code(fill_button()))


def page_button(record: PageRecord, name: str) -> Callable[[], str]:
    """The button that saves the page under a `name`; returns the function that fills it when the page is
    complete.
    """
    home, moment = st.context.url or "", datetime.now(UTC)
    query = {each: st.query_params.get_all(each) for each in st.query_params}

    def written() -> str:
        return of_page(record, address(home, query, record.pinned), moment)

    st.download_button(
        "Page as Markdown",
        lambda: written().encode(),
        file_name=f"{name}-{moment:%Y-%m-%d}.md",
        mime="text/markdown",
        key=f"markdown-{name}",
        on_click="ignore",
        help="The page as it is now, for an issue",
    )
    return written


@cache
def browser_script() -> str:
    """Add the script of our functions in the browser, once per page; it is constant text."""
    return f"<script>\n{Path(__file__).with_name('browser.js').read_text()}</script>"
