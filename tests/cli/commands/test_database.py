"""`pyrometer db`: what people read of checks, copies and roles, and the exit codes that programs read."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli.commands.database import app
from db.connection.engine import open_database
from support.builders.journals import a_plan, write_journal
from support.sqlite_files import sqlite_with_tables
from workflows.ingest import ingest_pending


@pytest.fixture
def typed(bare_folder: Path) -> CliRunner:
    """The command line in a folder without settings."""
    return CliRunner()


@pytest.fixture
def data_dir(typed: CliRunner, tmp_path: Path) -> Path:
    """The data folder, with one run that is stored."""
    write_journal(tmp_path / ".pyrometer", "run-1")
    with open_database(sqlite_with_tables(tmp_path / "pyrometer.db")) as database:
        assert len(list(ingest_pending(tmp_path / ".pyrometer", database))) == 1
    return tmp_path / ".pyrometer"


def lines(result: Result) -> dict[str, str]:
    """The line of each check by its first word."""
    return {line.split()[0]: line for line in result.stdout.splitlines() if line and not line.startswith(" ")}


def test_a_sound_database_has_a_line_for_each_check(typed: CliRunner, data_dir: Path) -> None:
    said = typed.invoke(app, ["check"])
    assert (said.exit_code, said.stderr) == (0, "") and said.stdout.endswith("no problem found\n")
    found = lines(said)
    assert found["counts"].split() == ["counts", "1", "runs", "sound"]
    assert found["samples"].split() == ["samples", "8", "outcomes", "sound"]
    printed = [
        json.loads(line) for line in typed.invoke(app, ["check", "--json", "--all"]).stdout.splitlines()
    ]
    *checks, last = printed
    assert last == {"sound": True} and all(each["problems"] == [] for each in checks)
    assert [each["name"] for each in checks] == list(found)[: len(checks)]


def test_what_is_wrong_is_said_with_what_mends_it(typed: CliRunner, data_dir: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "pyrometer.db")) as connection, connection:
        connection.execute("UPDATE measurement SET point = point * 1.001 WHERE n = 2")
    said = typed.invoke(app, ["check"])
    assert said.exit_code == 1 and said.stdout.endswith("problems found; nothing was changed\n")
    assert "13 of 13 measurements of run run-1 differ from those computed from its outcomes" in said.stdout
    assert "`pyrometer db check --repair` stores the run again" in said.stdout
    repaired = typed.invoke(app, ["check", "--repair"])
    assert repaired.exit_code == 0 and "run run-1 is stored again from its journal" in repaired.stdout
    assert typed.invoke(app, ["check"]).exit_code == 0, "what was said to mend it mends it"


@pytest.mark.parametrize(
    "loss",
    [
        "DELETE FROM outcome WHERE replicate = 1",
        "DELETE FROM measurement WHERE series_id = (SELECT min(series_id) FROM measurement)",
        "UPDATE measurement SET low = low * 0.5 WHERE n = 2",
    ],
)
def test_what_the_database_lost_comes_back_from_the_journal(
    typed: CliRunner, data_dir: Path, tmp_path: Path, loss: str
) -> None:
    with closing(sqlite3.connect(tmp_path / "pyrometer.db")) as connection, connection:
        assert connection.execute(loss).rowcount
    assert lines(typed.invoke(app, ["check"]))["contents"].split()[-2:] == ["1", "problem"]
    repaired = typed.invoke(app, ["check", "--repair"])
    assert repaired.exit_code == 0 and "run run-1 is stored again from its journal" in repaired.stdout
    assert "stored again" not in typed.invoke(app, ["check", "--repair"]).stdout


def test_a_journal_that_waits_is_mentioned_and_no_fault(typed: CliRunner, data_dir: Path) -> None:
    write_journal(data_dir, "run-2")
    said = typed.invoke(app, ["check"])
    assert said.exit_code == 0
    assert f"the journal of run run-2 with {len(a_plan())} outcomes is not completely stored" in said.stdout


@pytest.mark.parametrize("page", [0, 3, 9])
def test_a_damaged_file_is_no_traceback(typed: CliRunner, data_dir: Path, tmp_path: Path, page: int) -> None:
    path = tmp_path / "pyrometer.db"
    content = bytearray(path.read_bytes())
    for place in range(page * 4096, len(content) - 64, 4096 * 5):
        content[place : place + 64] = b"\xa5" * 64
    path.write_bytes(content)
    said = typed.invoke(app, ["check"])
    assert said.exit_code == 1 and isinstance(said.exception, SystemExit), said.exception
    assert "pyrometer db backup --help" in said.stdout and "Traceback" not in said.output
    assert "malformed" in said.stdout or "damaged" in said.stdout or "not a database" in said.stdout


def test_no_database_is_one_sentence(typed: CliRunner, tmp_path: Path) -> None:
    (tmp_path / ".pyrometer").mkdir()
    for arguments in (["check"], ["backup", "copy"]):
        said = typed.invoke(app, arguments)
        assert (said.exit_code, said.stdout) == (2, "") and "There is no database" in said.stderr
    assert not (tmp_path / "pyrometer.db").exists() and not (tmp_path / "copy").exists()


def test_a_copy_is_made_once(typed: CliRunner, data_dir: Path, tmp_path: Path) -> None:
    said = typed.invoke(app, ["backup", "copy.db"])
    assert said.exit_code == 0 and said.stdout.startswith("copy.db: 0.") and said.stdout.endswith("checked\n")
    again = typed.invoke(app, ["backup", "copy.db"])
    assert again.exit_code == 2 and "--force" in again.stderr
    assert typed.invoke(app, ["backup", "copy.db", "--force"]).exit_code == 0
