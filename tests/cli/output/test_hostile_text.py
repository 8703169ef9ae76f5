"""Text from outside steers no terminal: neither in a cell, nor as a case key."""

import io

import pytest
from rich.console import Console
from rich.text import Text

from cli.output.console import CaseName, table

TITLE, TURNED = "mo\x1b]0;PWNED\x07del", "a\u202eb"


@pytest.mark.parametrize("cell", [TITLE, TURNED, Text(TITLE, "bold"), CaseName(f"{TITLE}/infer/-/{TURNED}")])
@pytest.mark.parametrize("terminal", [True, False])
def test_a_cell_steers_no_terminal(cell: object, terminal: bool) -> None:
    written = io.StringIO()
    shown = table("case")
    shown.add_row(cell)  # type: ignore[arg-type]
    Console(file=written, force_terminal=terminal, color_system="standard", width=100).print(shown)
    printed = written.getvalue()
    assert "\x1b]" not in printed and "\x07" not in printed and "\u202e" not in printed
    assert "del" in printed or "b" in printed


def test_lines_of_a_cell_stay_lines() -> None:
    written = io.StringIO()
    shown = table("note")
    shown.add_row("one\ntwo")
    Console(file=written, width=100).print(shown)
    assert [line.strip() for line in written.getvalue().splitlines()] == ["note", "one", "two"]
