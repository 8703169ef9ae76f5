"""Consoles, tables and case keys on standard output."""

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from common.text import printable, printable_lines

from .lossy_text import lossy

#: Columns of a table in a file or a pipe.
_PIPE_WIDTH = 200
#: A part of a case key with the separator that ends it.
_PART = re.compile(r"[^/,]*[/,]|[^/,]+")


def stdout_width() -> int | None:
    """The width of tables on stdout in columns; None for that of the terminal or COLUMNS.

    A pipe has no width, and with the default of 80 columns every case key would be folded.
    """
    return None if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit() else _PIPE_WIDTH


class PlainConsole(Console):
    """A console that removes control characters from its text."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as `rich.console.Console.print` does."""
        super().print(*map(_printable, objects), **options)


def report_console() -> Console:
    """Stdout for a report or a table; errors of writing are raised."""
    return PlainConsole(file=sys.stdout, highlight=False, width=stdout_width())


def watching_console() -> Console:
    """Stdout during a measurement, which continues without output if the disk of stdout is full."""
    return PlainConsole(file=lossy(sys.stdout), highlight=False, width=stdout_width())


class PlainTable(Table):
    """A table without lines that removes control characters from its cells."""

    def __init__(self, **options: Any) -> None:
        usual: dict[str, Any] = {"box": None, "header_style": "bold", "pad_edge": False}
        super().__init__(**{**usual, **options})

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        """Add a row as `rich.table.Table.add_row` does."""
        super().add_row(*map(_printable, cells), **options)


def _printable(part: Any) -> Any:
    if isinstance(part, str):
        return printable_lines(part)
    if isinstance(part, Text) and part.plain != (plain := printable_lines(part.plain)):
        # The text keeps its length, so that the styled spans stay right.
        part.plain = plain
    return part


def print_line(console: Console, text: str, style: str = "") -> None:
    """Print a line without markup, control characters, and line breaks."""
    console.print(Text(printable(text), style), soft_wrap=True)


def print_event(console: Console, event: str, body: Mapping[str, object]) -> None:
    """Print one JSON object on a line of its own; its `event` says what it is about."""
    console.file.write(json.dumps({"event": event, **body}, default=str) + "\n")
    console.file.flush()


def table(*headings: str) -> PlainTable:
    """A plain table with these headings."""
    made = PlainTable()
    for heading in headings:
        made.add_column(heading, overflow="fold")
    return made


@dataclass(frozen=True, slots=True)
class CaseName:
    """A case key that is broken after `/` and `,`; within a part only if the part is too wide."""

    key: str

    def lines(self, width: int) -> list[str]:
        """The key in lines of at most `width` characters."""
        found = [""]
        for part in _PART.findall(printable(self.key)):
            if found[-1] and len(found[-1]) + len(part) > width:
                found.append("")
            found[-1] += part
        return [line[at : at + width] for line in found for at in range(0, len(line) or 1, width)]

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """From the widest part to the whole key."""
        widest = max(map(len, _PART.findall(self.key)), default=0)
        return Measurement(widest, len(self.key)).with_maximum(options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines, without markup."""
        yield Text("\n".join(self.lines(max(1, options.max_width))), no_wrap=True)
