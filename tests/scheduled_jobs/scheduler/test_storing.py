"""Runs that end at once: each worker slot stores its own run, and none stores what the others wait for."""

import threading
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Never

import pytest

from configuration.settings import load_settings
from db.connection.engine import Database, open_database
from db.runs import queries
from scheduled_jobs.jobs.context import JobContext
from scheduled_jobs.scheduler import task_runs
from support.builders.journals import write_journal
from support.waiting import until
from workflows import ingest

RUNS = ("20260601-000000-aaaaaaaa", "20260601-000000-bbbbbbbb", "20260601-000000-cccccccc")
ORPHAN = "20260531-000000-00000000"


def no_child(*_: object, **__: object) -> Never:
    """Storing starts nothing."""
    raise AssertionError("a child was started")


@pytest.fixture
def context(tmp_path: Path, url: str) -> JobContext:
    return JobContext(
        settings=load_settings(cwd=tmp_path, environ={}),
        data_dir=tmp_path,
        machine="here",
        open_database=partial(open_database, url),
        now=lambda: datetime(2026, 6, 1, tzinfo=UTC),
        stop=threading.Event(),
        child=no_child,
        set_run=no_child,
        say=no_child,
    )


def known(database: Database, *wanted: str) -> list[str]:
    """Those of the runs that the database has."""
    return [run for run in wanted if queries.run_record(database, run) is not None]


def test_a_lane_that_ends_alone_stores_runs_that_no_other_lane_stores(
    context: JobContext, database: Database
) -> None:
    for run in (RUNS[0], ORPHAN):
        write_journal(context.data_dir, run)
    task_runs.store_runs(context, RUNS[0])
    assert known(database, ORPHAN, RUNS[0]) == [ORPHAN, RUNS[0]]


def test_lanes_that_end_at_once_store_their_own_and_the_last_one_the_rest(
    context: JobContext, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for run in (*RUNS, ORPHAN):
        write_journal(context.data_dir, run)
    stored: list[tuple[str, str]] = []
    really = ingest.ingest

    def noted(path: Path, into: Database) -> ingest.IngestResult:
        stored.append((threading.current_thread().name, path.parent.name))
        return really(path, into)

    monkeypatch.setattr(ingest, "ingest", noted)
    slots = [threading.Thread(target=task_runs.store_runs, args=(context, run), name=run) for run in RUNS]
    with task_runs.STORE_LOCK:
        for slot in slots:
            slot.start()
        until(lambda: len(task_runs.STORE_QUEUE) == len(RUNS), "all slots wait")
    for slot in slots:
        slot.join()
    assert sorted(stored[:3]) == [(run, run) for run in RUNS]
    last = stored[2][0]
    assert stored[3:] == [(last, ORPHAN)]
    assert known(database, ORPHAN, *RUNS) == [ORPHAN, *RUNS]


def test_what_is_stored_is_not_stored_again(context: JobContext, database: Database) -> None:
    write_journal(context.data_dir, RUNS[0])
    assert (
        len(list(ingest.ingest_pending(context.data_dir, database, [RUNS[0], "20260601-000000-nowhere"])))
        == 1
    )
    assert list(ingest.ingest_pending(context.data_dir, database, [RUNS[0]])) == []
