"""Text from outside steers no terminal: neither in a cell, nor as a case key."""

import io

import pytest
from rich.console import Console
from rich.text import Text

from cli.output.console import CaseName, report_console, table, watching_console

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


def test_a_line_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    for console in (report_console(), watching_console()):
        console.print(f"{TITLE}: crashed\n{TURNED}", markup=False)
        console.print(Text(TITLE, "bold"))
    printed = capsys.readouterr().out
    assert "\x1b]" not in printed and "\u202e" not in printed and printed.count("crashed\n") == 2
