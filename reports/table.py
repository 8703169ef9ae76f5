"""Tables: one specification of the columns, rendered to HTML, to Markdown and to records for CSV."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from markupsafe import Markup

from .text import markdown
from .text.numbers import NONE
from .text.templates import escape_text, render

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """A column of a table of `Row`s.

    `name` is the column in CSV files; without one the column is on pages only. `label` is the heading; with
    None the column is in CSV files only. `value` is the value of a row in CSV files. `format` makes its
    display on pages: text, which is escaped, or Markup; by default the value as text. `html` replaces it if
    the cell is HTML already. `link` is the address that the cell leads to, `help` the tooltip of the heading.
    `number`: the cells are right-aligned.
    """

    name: str = ""
    label: str | None = None
    value: Callable[[Row], Any] | None = None
    format: Callable[[Row], str] | None = None
    number: bool = False
    help: str = ""
    link: Callable[[Row], str] | None = None
    html: Callable[[Row], str] | None = None

    def cell(self, row: Row) -> Markup:
        """The HTML of the cell of a row."""
        if self.html is not None:
            content = Markup(self.html(row))
        elif self.format is not None:
            content = escape_text(self.format(row))
        else:
            value = self.value(row) if self.value else None
            content = escape_text(NONE if value is None or value == "" else str(value))
        if self.link is None or not (address := self.link(row)):
            return content
        return Markup('<a href="{}" target="_self">{}</a>').format(address, content)

    def sort_value(self, row: Row) -> float | None:
        """The sort key of the cell if its text is not a plain number."""
        value = self.value(row) if self.value and self.number else None
        return value if isinstance(value, float) else None


def _lone_dot(cell: Markup) -> str:
    """A dot as the only content of a cell, which Markdown would take for a separator."""
    return "·" if cell.striptags() == "·" else ""


@dataclass(frozen=True, slots=True)
class DataTable(Generic[Row]):
    """Rows with their columns; `label` names the table for screen readers.

    Pages show `most` rows at most and then the number of those left out with `rest`; CSV files hold all.
    `about` is printed above. `tall` lets the table scroll, `folded` turns it into a list on narrow screens,
    `dense` sets it tighter.
    """

    label: str
    columns: Sequence[Column[Row]]
    rows: Sequence[Row]
    most: int | None = None
    rest: str = "more rows: the CSV file has them."
    tall: bool = False
    folded: bool = True
    dense: bool = False
    about: str = ""
    #: The number of rows left out by the caller.
    omitted: int = 0

    @property
    def visible_columns(self) -> list[Column[Row]]:
        """The columns that pages show."""
        return [column for column in self.columns if column.label is not None]

    @property
    def hidden_rows(self) -> int:
        """The number of rows that pages leave out."""
        return self.omitted + (0 if self.most is None else max(0, len(self.rows) - self.most))

    def html(self, *, row_headers: bool = False, sortable: bool = False) -> Markup:
        """The table as HTML; with `row_headers` the first cell of each row is a header."""
        return render("table.html", table=self, row_headers=row_headers, sortable=sortable, nothing=NONE)

    def markdown(self, most: int | None = None, home: str = "") -> str:
        """The table in GitHub's Markdown, of `most` rows at most; links are resolved against `home`."""
        # Imported here: other tables should not wait for the libraries that convert HTML to Markdown.
        from .text.html_markdown import converted_cell

        limit = min((each for each in (most, self.most) if each is not None), default=len(self.rows))
        visible = [[column.cell(row) for column in self.visible_columns] for row in self.rows[:limit]]
        text = markdown.table(
            [column.label or "" for column in self.visible_columns],
            [[converted_cell(cell, home) or _lone_dot(cell) for cell in cells] for cells in visible],
            [column.number for column in self.visible_columns],
        )
        if self.about:
            text = f"{markdown.text(self.about)}\n\n{text}"
        more = self.omitted + len(self.rows) - min(limit, len(self.rows))
        if not more:
            return text
        rest = "more rows, which the CSV file has" if self.most is None else markdown.text(self.rest)
        return f"{text}\n\nand {more:,} {rest}"

    @property
    def names(self) -> list[str]:
        """The names of the columns of CSV files."""
        return [column.name for column in self.columns if column.name]

    def records(self) -> list[dict[str, Any]]:
        """The rows of CSV files."""
        valued = [(column.name, column.value) for column in self.columns if column.name and column.value]
        return [{name: value(row) for name, value in valued} for row in self.rows]
