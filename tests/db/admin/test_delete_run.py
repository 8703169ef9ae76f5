"""A run that is forgotten leaves nothing behind, and everything else as if it had never been."""

from typing import Any

import pytest
from sqlalchemy import func, insert, select, update

from db.admin.check import WHOLE
from db.admin.delete_run import DeletedRun, forget_run
from db.connection.engine import Database
from db.errors import StillReferred
from db.runs import queries, series_queries
from db.runs import releases as runs_releases
from db.schema import core_tables as tables
from db.schema.finding_tables import FindingRow, TriageRow
from db.schema.queue_tables import ScheduledRunRow, TaskRow
from support.builders.run_records import (
    BERT,
    MLP,
    a_night,
    a_recording,
    a_run,
    an_environment,
    an_outcome,
)
from support.builders.stored_run import store_run

CASES = {0: (MLP, BERT), 1: (MLP,), 2: (MLP,)}
VERSIONS = {0: "2.12.1+cpu", 1: "2.12.1+cpu", 2: "2.13.0+cpu"}


def measured(database: Database, *nights: int) -> None:
    for night in nights:
        environment = an_environment(VERSIONS[night])
        outcomes = [
            an_outcome(case, environment=environment, latency=2.0 + night, telemetry=[a_recording()])
            for case in CASES[night]
        ]
        run = a_run(
            f"night-{night}", environments=[environment], started_at=a_night(night), planned=len(outcomes)
        )
        store_run(database, run, outcomes)


def everything(database: Database) -> list[Any]:
    """All that pages ask of runs, series and releases."""
    keys = series_queries.series_keys(database)
    releases = runs_releases.releases(database)
    points = [runs_releases.release_points(database, releases, metric) for metric in ("latency", "rss_peak")]
    runs = [queries.run_record(database, run) for run in queries.runs_by_age(database)]
    return [keys, series_queries.series(database, keys), releases, points, runs]


def rows(database: Database) -> dict[str, int]:
    with database.reading() as connection:
        every = tables.Base.metadata.sorted_tables
        return {t.name: connection.execute(select(func.count()).select_from(t)).scalar_one() for t in every}


@pytest.mark.slow
@pytest.mark.parametrize("night", [0, 1, 2])
def test_what_is_left_is_as_if_it_had_never_been(database: Database, night: int) -> None:
    others = [each for each in CASES if each != night]
    measured(database, *others)
    expected, counts = everything(database), rows(database)
    measured(database, night)
    assert everything(database) != expected
    with_it = rows(database)
    many = len(CASES[night])
    gone = DeletedRun(f"night-{night}", many, 3 * many, many, many)
    assert forget_run(database, f"night-{night}", dry_run=True) == gone
    assert rows(database) == with_it
    assert forget_run(database, f"night-{night}") == gone
    assert everything(database) == expected
    for table, count in rows(database).items():
        # Cases are known further on.
        assert count == counts[table] or table == "benchmark_case", table
    assert [problem for _, _, look in WHOLE for problem in look(database).problems] == []
    assert forget_run(database, f"night-{night}") is None
    measured(database, night)
    assert rows(database) == with_it


def a_finding(database: Database, at: int, before: int, **more: Any) -> int:
    with database.writing() as connection:
        numbers = {
            row.id: row.number for row in connection.execute(select(tables.RunRow.id, tables.RunRow.number))
        }
        series = connection.execute(select(func.min(tables.MeasurementRow.series_id))).scalar_one()
        environment = connection.execute(select(func.min(tables.EnvironmentRow.id))).scalar_one()
        values: dict[str, Any] = {
            "series_id": series,
            "schedule": "nightly",
            "track": "nightly",
            "label": "",
            "direction": "worse",
            "shape": "step",
            "at_run": numbers[f"night-{at}"],
            "before_run": numbers[f"night-{before}"],
            "old_environment_id": environment,
            "new_environment_id": environment,
            "change": 0.1,
            "state": "confirmed",
            "found_at": a_night(3),
            "evidence": {},
            "group_key": "",
            "triage": "open",
            "link": "",
            **more,
        }
        (id,) = connection.execute(insert(FindingRow).values(values).returning(FindingRow.id)).one()
        entry = {"finding_id": id, "at": a_night(3), "who": "ada", "action": "note", "text": "a look"}
        connection.execute(insert(TriageRow), [entry])
    return id


def test_what_something_rests_on_stays_unless_forced(database: Database) -> None:
    measured(database, 0, 1, 2)
    first = a_finding(database, at=1, before=0)
    a_finding(database, at=2, before=1, returns_of=first)
    due = {"schedule": "nightly", "due_at": a_night(0)}
    task = {"part": "", "job": "measure", "spec": {}, "label": "", "attempts": 1, "beats": 0, "result": {}}
    with database.writing() as connection:
        connection.execute(insert(ScheduledRunRow).values(**due, kind="timetable", made_at=a_night(0)))
        connection.execute(insert(TaskRow).values(**due, **task, error="", state="done", run_id="night-0"))
    before = rows(database)
    with pytest.raises(StillReferred, match="Run night-0 is what 1 finding and 1 task rest on"):
        forget_run(database, "night-0")
    assert rows(database) == before
    gone = forget_run(database, "night-0", force=True)
    assert gone and (gone.findings, gone.tasks) == (1, 1)
    after = rows(database)
    assert (after["finding"], after["triage"], after["task"]) == (1, 1, 1)
    with database.reading() as connection:
        assert connection.execute(select(FindingRow.returns_of)).scalar() is None
        assert connection.execute(select(TaskRow.run_id)).scalar() is None
    with database.writing() as connection:
        connection.execute(update(TaskRow).values(run_id="night-9"))
    assert forget_run(database, "night-2", force=True)
    # The series of the finding that went with it is one of those that were measured in other nights.
    assert {key.metric for key in series_queries.series_keys(database)} == {
        "latency",
        "rss_peak",
        "throughput",
    }
