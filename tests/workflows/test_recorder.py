"""What is said when neither journal nor database take what was measured: nothing that is not so."""

import resource
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from common import bounded_files
from db.connection.engine import Database, open_database
from db.errors import DatabaseError
from db.runs import queries, store
from db.runs.queries import STILL_RUNNING, stored_outcomes
from runner import journal
from runner.journal import Journal
from support.builders.journals import a_header, a_plan, an_outcome
from support.sqlite_files import sqlite_with_tables
from workflows.recorder import Recorder

NOW = datetime(2026, 6, 1, tzinfo=UTC)


@contextmanager
def no_room_beyond(size: int) -> Generator[None]:
    """Within the block no file of this process grows beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def away() -> Database:
    raise DatabaseError("the database is away.")


@pytest.mark.parametrize(("fits", "where"), [(True, "Everything"), (False, "The rest")])
def test_the_journal_is_said_to_hold_everything_only_where_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fits: bool, where: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    plan, notes = a_plan(), list[str]()
    begun = Journal(tmp_path / "run-1")
    header = a_header("run-1", plan)
    begun.header(header.to_body())
    recorder = Recorder(begun, header, away, notes.append)
    recorder.outcome(an_outcome(plan[0], NOW))
    with no_room_beyond(1 << 30 if fits else begun.path.stat().st_size + 20):
        recorder.outcome(an_outcome(plan[1], NOW))
        recorder.between_sessions()
    assert notes[-1] == f"the database is away. {where} is in the journal; the next command stores it."
    assert begun.pending_lines == (not fits)
    recorder.end("interrupted")
    assert len(journal.read_contents(begun.path).outcomes) == 2


def test_what_the_disk_refuses_is_in_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    plan, url = a_plan(), sqlite_with_tables(tmp_path / "pyrometer.db")
    begun = Journal(tmp_path / "run-1")
    header = a_header("run-1", plan)
    begun.header(header.to_body())
    # The journal is longer than the database will be: a limit of the size of files stops it alone.
    begun.path.write_bytes(begun.path.read_bytes() + b"\n" * (2 << 20))
    with open_database(url) as database:
        recorder = Recorder(begun, header, lambda: open_database(url), list[str]().append)
        recorder.begin()
        recorder.outcome(an_outcome(plan[0], NOW))
        recorder.between_sessions()
        with no_room_beyond(begun.path.stat().st_size + 20):
            recorder.outcome(an_outcome(plan[1], NOW))
            recorder.between_sessions()
            assert stored_outcomes(database) == {"run-1": STILL_RUNNING}
            assert len(queries.outcomes_of_run(database, "run-1")) == 2
            recorder.outcome(an_outcome(plan[2], NOW))
            assert recorder.end("interrupted")
        assert begun.pending_lines == 3
        assert stored_outcomes(database) == {"run-1": 3}


def test_a_database_that_was_exchanged_while_it_was_away_gets_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, notes = a_plan(), list[str]()
    begun = Journal(tmp_path / "run-1")
    header = a_header("run-1", plan)
    begun.header(header.to_body())
    urls = [sqlite_with_tables(tmp_path / f"{name}.db") for name in ("one", "two")]
    opened = iter(urls)
    recorder = Recorder(begun, header, lambda: open_database(next(opened)), notes.append)
    recorder.begin()
    recorder.outcome(an_outcome(plan[0], NOW))
    recorder.between_sessions()
    with monkeypatch.context() as patch:
        patch.setattr(store, "save_run", lost)
        recorder.outcome(an_outcome(plan[1], NOW))
        recorder.between_sessions()
    for each in plan[2:]:
        recorder.outcome(an_outcome(each, NOW))
    assert recorder.end("complete") and notes[0].startswith("the database is lost.")
    for url, held in zip(urls, ({"run-1": STILL_RUNNING}, {"run-1": len(plan)}), strict=True):
        with open_database(url) as database:
            assert stored_outcomes(database) == held


def lost(*_: object, **__: object) -> None:
    raise DatabaseError("the database is lost.")


def test_lines_are_rescued_into_no_file_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    victim = tmp_path / "victim"
    victim.write_text("kept")
    (tmp_path / "pyrometer-run-1.jsonl").symlink_to(victim)
    plan = a_plan()
    begun = Journal(tmp_path / "run-1")
    header = a_header("run-1", plan)
    begun.header(header.to_body())
    recorder = Recorder(begun, header, away, list[str]().append)
    with no_room_beyond(begun.path.stat().st_size + 20):
        recorder.outcome(an_outcome(plan[0], NOW))
        begun.close()
    note = recorder.abandon()
    (rescued,) = (each for each in tmp_path.glob("pyrometer-run-1-*.jsonl"))
    assert str(rescued) in note and b"outcome" in rescued.read_bytes()
    assert rescued.stat().st_mode & 0o777 == 0o600 and victim.read_text() == "kept"


def test_a_run_that_goes_on_stores_its_journal_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, parse, read = a_plan(), journal.parse, list[int]()
    url = sqlite_with_tables(tmp_path / "pyrometer.db")
    header = a_header("run-1", plan)
    with Journal(tmp_path / "run-1") as begun:
        begun.header(header.to_body())
        for each in plan[:-1]:
            begun.outcome(an_outcome(each, NOW))
    size = begun.path.stat().st_size

    def noted(path: Path, data: bytes, first: int = 1) -> journal.Contents:
        read.append(len(data))
        return parse(path, data, first)

    monkeypatch.setattr(journal, "parse", noted)
    monkeypatch.setattr(bounded_files, "_PIECE", 2048)
    with Journal(tmp_path / "run-1") as resumed:
        recorder = Recorder(resumed, header, lambda: open_database(url), print)
        recorder.begin()
        recorder.outcome(an_outcome(plan[-1], NOW))
        assert recorder.end("complete")
    assert sum(read) > size and max(read) <= 4096 < size
    with open_database(url) as database:
        stored = {each.planned_replicate for each in queries.outcomes_of_run(database, "run-1")}
        run = queries.run_record(database, "run-1")
    assert stored == {*plan} and run is not None and run.state == "complete"
