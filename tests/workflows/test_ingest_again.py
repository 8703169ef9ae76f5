"""What could not be stored is said, waits for who can read it, and is stored again where it was lost."""

import json
import shutil
import zlib
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import pytest

from common import journal_lines
from db.admin.backup import back_up
from db.connection.engine import Database, open_database
from db.runs import queries
from db.runs.queries import stored_outcomes
from runner import journal
from support.builders.journals import a_header, a_plan, an_outcome, write_journal
from support.sqlite_files import sqlite_with_tables
from workflows import ingest as ingesting
from workflows.database_upkeep import check
from workflows.ingest import IngestResult, ingest, ingest_pending, pending_journals
from workflows.recorder import Recorder
from workflows.run_header import Header


def a_line(kind: str, body: object, version: int = 1) -> bytes:
    crc = zlib.crc32(json.dumps([kind, body], sort_keys=True, separators=(",", ":")).encode())
    return json.dumps({"v": version, "kind": kind, "crc": crc, "body": body}).encode() + b"\n"


def stored(data_dir: Path, database: Database) -> list[int]:
    """The new outcomes of each journal that was pending."""
    done = list(ingest_pending(data_dir, database))
    assert all(isinstance(each, IngestResult) for each in done)
    return [each.new_outcomes for each in done if isinstance(each, IngestResult)]


def test_lines_set_aside_are_noted_with_the_run(tmp_path: Path, database: Database) -> None:
    path = write_journal(tmp_path, "run-1")
    whole = path.read_bytes().splitlines(keepends=True)
    header, first, second, *rest = whole
    damaged = second.replace(b'"status":"', b'"status":"x', 1)
    path.write_bytes(
        b"".join([header, first, damaged, a_line("outcome", {}, version=2), *rest, rest[-1][:30]])
    )
    done = ingest(path, database)
    assert done.new_outcomes == len(a_plan()) - 1
    run = queries.run_record(database, "run-1")
    assert run is not None and run.notes == (
        "journal line 3: damaged: its checksum does not match; set aside",
        "journal line 4: written in version 2 of the journal, this Pyrometer reads 1; set aside",
        f"journal line {len(whole) + 2}: torn or not a journal line; set aside",
    )
    path.write_bytes(b"".join([*whole, b"sand\n" * 50]))
    ingest(path, database)
    run = queries.run_record(database, "run-1")
    assert run is not None and run.state == "complete"
    assert len(run.notes) == 21 and run.notes[-1] == "30 more lines of the journal were set aside"


def test_what_a_newer_version_wrote_waits_for_it(
    tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_journal(tmp_path, "run-1")
    newer = path.read_bytes().replace(b'{"v":1', b'{"v":2').splitlines(keepends=True)
    header, *older = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([header, *older[:4], *newer[5:]]))
    assert stored(tmp_path, database) == [4]
    assert stored(tmp_path, database) == [], "the same version would set aside the same"
    monkeypatch.setattr(ingesting, "version", lambda _: "9.9")
    monkeypatch.setattr(journal_lines, "VERSION", 2)
    assert stored(tmp_path, database) == [len(a_plan()) - 4]
    assert metadata.version("pyrometer") != "9.9"
    assert stored(tmp_path, database) == []
    run = queries.run_record(database, "run-1")
    assert run is not None and (run.state, run.notes) == ("complete", ())


def test_the_version_is_looked_up_only_for_marks_that_name_one(
    tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[str] = []
    monkeypatch.setattr(ingesting, "version", lambda name: looked_up.append(name) or "9.9")
    marks = [write_journal(tmp_path, f"run-{number}").with_name("stored") for number in range(5)]
    assert len(stored(tmp_path, database)) == 5
    assert pending_journals(tmp_path, stored_outcomes(database)) == [] and looked_up == []
    marks[0].write_text(f"{marks[0].read_text()} 9.9")
    assert pending_journals(tmp_path, stored_outcomes(database)) == [] and looked_up == ["pyrometer"]


@pytest.mark.parametrize("mark", ["", "12", "yes no", "1 2 3 4", "\xff"])
def test_a_mark_of_another_kind_only_costs_time(tmp_path: Path, database: Database, mark: str) -> None:
    path = write_journal(tmp_path, "run-1")
    assert stored(tmp_path, database) == [len(a_plan())]
    path.with_name("stored").write_text(mark, encoding="latin-1")
    assert pending_journals(tmp_path, stored_outcomes(database)) == [path]
    assert stored(tmp_path, database) == [0] and stored(tmp_path, database) == []


def test_what_a_restored_backup_has_not_yet_is_stored_again(tmp_path: Path) -> None:
    url, data_dir = sqlite_with_tables(tmp_path / "pyrometer.db"), tmp_path / "data"
    path = write_journal(data_dir, "run-1")
    whole = path.read_bytes()
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:6]))
    with open_database(url) as database:
        assert stored(data_dir, database) == [5]
        back_up(url, tmp_path / "copy")
        path.write_bytes(whole)
        assert stored(data_dir, database) == [len(a_plan()) - 5]
        write_journal(data_dir, "run-2")
        assert stored(data_dir, database) == [len(a_plan())]
    (tmp_path / "pyrometer.db").unlink()
    shutil.copy(tmp_path / "copy", tmp_path / "pyrometer.db")
    with open_database(url) as database:
        assert stored(data_dir, database) == [len(a_plan()) - 5, len(a_plan())]
        assert stored_outcomes(database) == {"run-1": len(a_plan()), "run-2": len(a_plan())}
        assert not [problem for each in check(database, data_dir) for problem in each.problems]


def state(database: Database) -> str:
    run = queries.run_record(database, "run-1")
    assert run is not None
    return run.state


def test_a_run_that_died_when_it_was_gone_on_with_is_not_running_for_ever(tmp_path: Path) -> None:
    url, data_dir = sqlite_with_tables(tmp_path / "pyrometer.db"), tmp_path / "data"
    path = write_journal(data_dir, "run-1")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:6]))
    with open_database(url) as database:
        assert stored(data_dir, database) == [5] and state(database) == "interrupted"
        contents = journal.read_contents(path)
        with journal.Journal(path.parent) as begun:
            recorder = Recorder(
                begun, Header.from_body(contents.header), lambda: open_database(url), pytest.fail
            )
            recorder.begin()
            assert state(database) == "running"
            assert stored(data_dir, database) == [], "it is being measured"
        # Killed before its first new line.
        assert pending_journals(data_dir, stored_outcomes(database)) == [path]
        assert stored(data_dir, database) == [0] and state(database) == "interrupted"
        assert stored(data_dir, database) == []


def test_a_backup_from_the_last_moment_of_a_run_learns_of_its_end(tmp_path: Path) -> None:
    url, data_dir = sqlite_with_tables(tmp_path / "pyrometer.db"), tmp_path / "data"
    plan, now = a_plan(), datetime.now(UTC)
    header = a_header("run-1", plan)
    with journal.Journal(data_dir / "runs" / "run-1") as begun:
        begun.header(header.to_body())
        recorder = Recorder(begun, header, lambda: open_database(url), pytest.fail)
        recorder.begin()
        for each in plan:
            recorder.outcome(an_outcome(each, now))
        recorder.between_sessions()
        back_up(url, tmp_path / "copy")
        recorder.end("complete")
    with open_database(url) as database:
        assert stored(data_dir, database) == [] and state(database) == "complete"
    (tmp_path / "pyrometer.db").unlink()
    shutil.copy(tmp_path / "copy", tmp_path / "pyrometer.db")
    with open_database(url) as database:
        assert state(database) == "running"
        assert stored(data_dir, database) == [0] and state(database) == "complete"
        assert stored(data_dir, database) == []


def test_measurements_are_those_of_all_that_is_stored(tmp_path: Path, database: Database) -> None:
    """As when one process has read a journal, and before it stores that, another one stores more."""
    path = write_journal(tmp_path, "run-1")
    whole = path.read_bytes()
    ingest(path, database)
    before = queries.measurements_of_run(database, "run-1")
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:6]))
    assert ingest(path, database).new_outcomes == 0
    assert queries.measurements_of_run(database, "run-1") == before
    assert {each.n for each in before} == {2}
