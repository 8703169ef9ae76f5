"""Consoles and tables on standard output."""

import os
import sys

from rich.console import Console
from rich.table import Table

from .lossy_text import lossy

#: Columns of a table in a file or a pipe.
_PIPE_WIDTH = 200


def stdout_width() -> int | None:
    """The width of tables on stdout in columns; None: as the terminal or COLUMNS says.

    A pipe has no width; 80 columns would fold every case key.
    """
    return None if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit() else _PIPE_WIDTH


def report_console() -> Console:
    """Stdout for a report or a table; an error while writing is raised."""
    return Console(file=sys.stdout, highlight=False, width=stdout_width())


def watching_console() -> Console:
    """Stdout while something is measured: where its disk is full, measuring continues without it."""
    return Console(file=lossy(sys.stdout), highlight=False, width=stdout_width())


def table(*headings: str) -> Table:
    """A plain table with these headings."""
    made = Table(box=None, header_style="bold", pad_edge=False)
    for heading in headings:
        made.add_column(heading, overflow="fold")
    return made
