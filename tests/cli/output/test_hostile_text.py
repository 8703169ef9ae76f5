"""Text from outside steers no terminal: neither in a cell, nor as a case key."""

import io
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from cli.output.console import CaseName, report_console, table, watching_console
from cli.output.reporter import say
from runner.journal import Journal
from support.builders.journals import a_header, a_plan, an_outcome, write_journal
from support.command_line import called
from support.sqlite_files import sqlite_with_tables

NOW = datetime(2026, 9, 3, tzinfo=UTC)
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


def test_a_sentence_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"note: {TITLE}\n{TURNED}")
    printed = capsys.readouterr().err
    assert "\x1b" not in printed and "\u202e" not in printed and printed.count("\n") == 2


def test_no_text_of_a_journal_or_a_database_reaches_a_terminal_raw(tmp_path: Path) -> None:
    (tmp_path / "pyrometer.toml").touch()
    sqlite_with_tables(tmp_path / "pyrometer.db")
    data_dir = tmp_path / ".pyrometer"
    write_journal(data_dir, "20260901-020000-0001")
    plan = a_plan()
    with Journal(data_dir / "runs" / "20260902-020000-0002") as hostile:
        hostile.header({**a_header("20260902-020000-0002", plan).to_body(), "run": TITLE, "planned": TURNED})
    with Journal(data_dir / "runs" / "20260903-020000-0003") as hostile:
        hostile.header(a_header("20260903-020000-0003", plan).to_body())
        hostile.outcome(an_outcome(replace(plan[0], case=f"{TITLE}/infer/-/{TURNED}"), NOW))
    environ = {"HOME": str(tmp_path)}
    said = [called(tmp_path, environ, "report", "20260901-020000-0001")]
    with closing(sqlite3.connect(tmp_path / "pyrometer.db")) as connection, connection:
        connection.execute("UPDATE measurement SET point = point * 1.001 WHERE n = 2")
        connection.execute("UPDATE benchmark_case SET key = ? || key", (TITLE,))
        connection.execute("UPDATE machine SET name = ?", (TURNED,))
    said += [called(tmp_path, environ, *words) for words in (("db", "check"), ("db", "forget", TITLE))]
    assert said[0].code == 0 and "it is skipped" in said[0].err and "did not plan it" in said[0].err
    assert said[1].code == 1 and "differ from those computed" in said[1].out
    for one in said:
        assert not {"\x1b", "\x07", "\u202e"} & set(one.out + one.err)
