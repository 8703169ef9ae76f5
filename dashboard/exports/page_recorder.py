"""Records what a page shows in one run of its script, in order, for the export as Markdown."""

import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal

import pandas as pd

from reports.table import DataTable

Kind = Literal["title", "heading", "html", "words", "code", "chart", "complaint", "table"]

#: What a CSV file is made of: a function, a table, or tables that share their columns.
CsvSource = Callable[[], pd.DataFrame] | DataTable[Any] | Sequence[DataTable[Any]]


def frame_of(source: CsvSource) -> pd.DataFrame:
    """The rows of a CSV file."""
    if callable(source):
        return source()
    tables = [source] if isinstance(source, DataTable) else source
    rows = [row for table in tables for row in table.records()]
    return pd.DataFrame(rows, columns=tables[0].names)


@dataclass(frozen=True, slots=True)
class PageItem:
    """One thing on a page: `words` are in Streamlit's Markdown, `html` is ours, all else is plain text.

    `csv_of` is what a section's heading offers as CSV.
    """

    kind: Kind
    text: str
    csv_of: CsvSource | None = None
    table: DataTable[Any] | None = None


@dataclass(slots=True)
class PageRecord:
    """A page by its title, its pieces from top to bottom, and its own address where it has pinned one."""

    page: str = ""
    pieces: list[PageItem] = field(default_factory=list[PageItem])
    pinned: str = ""
    #: The file of the last section, without its ending, and how many charts stand in it so far.
    section: str = ""
    charts: int = 0

    @property
    def empty(self) -> bool:
        """Whether there is nothing but a title, or what is wrong."""
        return all(piece.kind in ("title", "complaint") for piece in self.pieces)


#: Of this run in this thread: a script runs in a thread of its own, and one rerun as a fragment adds nothing.
_current: ContextVar[PageRecord | None] = ContextVar("shown", default=None)


@contextmanager
def recorded() -> Generator[PageRecord]:
    """Keep in mind what is shown until the end of the block."""
    shown = PageRecord()
    token = _current.set(shown)
    try:
        yield shown
    finally:
        _current.reset(token)


def current() -> PageRecord | None:
    """The record of the page that is being shown, if it is recorded."""
    return _current.get()


def note(kind: Kind, text: str) -> None:
    """One more piece."""
    if (shown := _current.get()) is not None:
        shown.pieces.append(PageItem(kind, text))


def table(shown: DataTable[Any]) -> None:
    """A table."""
    if (record := _current.get()) is not None:
        record.pieces.append(PageItem("table", shown.label, table=shown))


def section(title: str, csv_of: CsvSource | None, file_name: str) -> None:
    """A section begins; its charts are saved under the name of its file."""
    if (shown := _current.get()) is not None:
        shown.pieces.append(PageItem("heading", title, csv_of))
        shown.section, shown.charts = file_name.rpartition(".")[0] or file_name, 0


def pin(address: str) -> None:
    """The address at which the page shows the same thing tomorrow."""
    if (shown := _current.get()) is not None:
        shown.pinned = address


def chart_name(wanted: str = "") -> str:
    """The name, without ending, that the next chart is saved under: as `wanted`, or its section's file."""
    if (shown := _current.get()) is None:
        return slug(wanted or "chart")
    name = wanted or shown.section or "chart"
    if not wanted:
        shown.charts += 1
        name += f"-{shown.charts}" if shown.charts > 1 else ""
    return slug(name)


def slug(text: str) -> str:
    """A text as a part of a file's name on any system."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.").lower()[:120] or "page"
