"""Job `prune`: leftovers of runs that are not resumed are removed, and nothing that was measured."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from db.connection.engine import open_database
from records.tasks import Task
from runner import journal
from runner.journal import Journal
from scheduled_jobs.jobs.prune import prune_rows
from support.builders.detection_nights import job_context
from support.builders.journals import write_journal
from support.sqlite_files import sqlite_with_tables

NOW = datetime.now(UTC)
TASK = Task(
    id=1,
    schedule="tidy",
    due_at=NOW,
    part="",
    job="prune",
    spec={},
    label="",
    state="running",
    attempts=1,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with open_database(sqlite_with_tables(tmp_path / "database/pyrometer.db")):
        return tmp_path


def killed(folder: Path, run: str, days: float) -> Path:
    """The folder of a run that was killed so many days ago."""
    path = write_journal(folder / "data", run)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:6]))
    (path.with_name("cache") / "env" / "case").mkdir(parents=True)
    (path.with_name("cache") / "env" / "case" / ".filled").write_bytes(bytes(3 << 20))
    path.with_name("reserve").write_bytes(bytes(1 << 20))
    path.with_name("logs").mkdir()
    moment = (NOW - timedelta(days=days)).timestamp()
    os.utime(path, (moment, moment))
    return path.parent


def pruned(folder: Path) -> list[str]:
    done = prune_rows(TASK, job_context(folder, NOW))
    assert done.state == "done"
    return list(done.result["gone"])


def names(run: Path) -> set[str]:
    return {each.name for each in run.iterdir()}


def test_what_a_run_left_behind_goes_after_weeks(folder: Path) -> None:
    old, young = killed(folder, "run-1", 29), killed(folder, "run-2", 27)
    before = (old / journal.FILE).read_bytes()
    (said,) = pruned(folder)
    expected = "compile caches and reserved files (4.0 MiB) of 1 run that was not resumed for 4 weeks"
    assert said == expected
    assert names(old) == {journal.FILE, "logs"} and (old / journal.FILE).read_bytes() == before
    assert names(young) == {journal.FILE, "logs", "cache", "reserve"}
    assert (
        pruned(folder) == []
        and prune_rows(TASK, job_context(folder, NOW)).result["summary"] == "nothing is old enough"
    )


def test_a_run_that_began_with_nothing_left_its_room_too(folder: Path) -> None:
    old = killed(folder, "run-1", 60)
    (old / journal.FILE).write_bytes(b"")
    os.utime(old / journal.FILE, (0, 0))
    assert len(pruned(folder)) == 1
    assert names(old) == {journal.FILE, "logs"}


def test_a_run_that_is_gone_on_with_keeps_everything(folder: Path) -> None:
    old = killed(folder, "run-1", 60)
    with Journal(old):
        assert pruned(folder) == []
        assert {"cache", "reserve"} <= names(old)
        assert (old / "cache" / "env" / "case" / ".filled").exists()


def test_a_removal_that_was_cut_short_is_brought_to_its_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = killed(folder, "run-1", 60)
    with monkeypatch.context() as patch:
        patch.setattr(
            "workflows.database_upkeep._size", lambda path: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            pruned(folder)
    assert "cache" not in names(old) and "logs" in names(old), (
        "who resumes it finds none, and never half of one"
    )
    assert len(pruned(folder)) == 1
    assert names(old) == {journal.FILE, "logs"}
