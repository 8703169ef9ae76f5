"""What is not sound is found and said with how to mend it; what is sound is left in peace."""

import sqlite3
from collections.abc import Collection, Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, insert, text, update

from db.admin.check import (
    WHOLE,
    CheckResult,
    measurement_check,
    metric_check,
    open_read_only,
    run_check,
    sample_check,
    schema_check,
    telemetry_check,
)
from db.connection.engine import Database, open_database
from db.errors import DatabaseError, DatabaseUnavailable
from db.queue import commands as queue
from db.runs import series_queries, store
from db.runs.metric_definitions import save_metrics
from db.schema import core_tables as tables
from db.schema import queue_tables
from records.kinds import RunSource
from records.outcomes import MetricDefinition, Replicate
from records.tasks import NewTask
from support.builders.run_records import MLP, RESNET, a_night, a_recording, a_run, an_environment, an_outcome
from workflows.ingest import measurements_of

CANARY = replace(an_environment(""), name="canary")


def filled(database: Database) -> None:
    """Three nights: two cases in two environments, one outcome that crashed, a canary."""
    environments = [an_environment("2.12.1+cpu"), an_environment("2.13.0+cpu")]
    for night in range(3):
        run = a_run(
            f"run-{night}", environments=[*environments, CANARY], started_at=a_night(night), planned=9
        )
        outcomes = [
            an_outcome(
                case,
                environment=environment,
                replicate=replicate,
                latency=2 + night / 9 + replicate / 7,
                telemetry=[] if replicate else [a_recording()],
            )
            for case in (MLP, RESNET)
            for environment in environments
            for replicate in range(2)
        ]
        outcomes.append(an_outcome(MLP, environment=environments[0], replicate=2, status="crashed"))
        song = an_outcome("canary_compute/infer/-/eager", environment=CANARY, blocks=())
        replicates = [
            Replicate(o.case, o.environment, o.metrics) for o in [*outcomes, song] if o.status == "ok"
        ]
        store.save_run(database, run)
        store.save_outcomes(database, run.id, outcomes)
        store.save_outcomes(database, run.id, [song], planned=False)
        store.save_measurements(database, run.id, measurements_of(replicates))


def everything(url: str, **how: Any) -> dict[str, CheckResult]:
    with open_read_only(url) as database:
        found = [
            schema_check(database),
            *(run_check(name, unit, lambda one=look: one(database)) for name, unit, look in WHOLE),
        ]
        found.append(measurement_check(database, measurements_of, **how))
        found += [sample_check(database), telemetry_check(database)]
    return {each.name: each for each in found}


def problems(found: dict[str, CheckResult]) -> dict[str, list[str]]:
    assert all(p.mend.endswith(".") for each in found.values() for p in each.problems)
    return {name: [p.sentence for p in each.problems] for name, each in found.items() if each.problems}


def spoil(database: Database, *statements: Any) -> None:
    with database.writing() as connection:
        for statement in statements:
            connection.execute(statement)


def test_a_sound_database_is_sound_and_counted(url: str, database: Database) -> None:
    filled(database)
    found = everything(url)
    assert problems(found) == {}
    counts = {name: each.count for name, each in found.items() if name not in ("file", "references")}
    points = 3 * (2 * 2 + 1) * 3
    assert counts == {
        "schema": 1,
        "counts": 3,
        "points": points,
        "measurements": points,
        "queue": 0,
        "samples": 24,
        "telemetry": 12,
    }


def test_a_database_without_tables_is_said_to_be_empty(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/pyrometer.db"
    with pytest.raises(DatabaseUnavailable, match="There is no database"), open_read_only(url):
        pass
    (tmp_path / "pyrometer.db").touch()
    with open_read_only(url) as database:
        (problem,) = schema_check(database).problems
    assert problem.sentence == f"The database {url} is empty."


def test_wrong_counts_are_found(url: str, database: Database) -> None:
    filled(database)
    spoil(
        database,
        update(tables.RunRow).where(tables.RunRow.id == "run-1").values(counts={"ok": 7, "crashed": 1}),
    )
    spoil(database, update(tables.RunRow).where(tables.RunRow.id == "run-2").values(planned=10))
    spoil(database, update(tables.RunRow).where(tables.RunRow.id == "run-0").values(planned=8))
    assert problems(everything(url)) == {
        "counts": [
            "Run run-0 is complete with 9 of 8 outcomes.",
            "Run run-1 counts 1 crashed, 7 ok, but has 1 crashed, 8 ok.",
            "Run run-2 is complete with 9 of 10 outcomes.",
        ]
    }


@pytest.mark.slow
def test_a_measurement_that_its_outcomes_do_not_say_is_found(url: str, database: Database) -> None:
    filled(database)
    of_one = tables.MeasurementRow.run_number == 2
    spoil(database, update(tables.MeasurementRow).where(of_one, tables.MeasurementRow.n == 1).values(n=2))
    spoil(
        database,
        update(tables.OutcomeRow)
        .where(tables.OutcomeRow.run_number == 3, tables.OutcomeRow.replicate == 1)
        .values(status="wrong"),
    )
    found = problems(everything(url))
    assert found.pop("counts") == ["Run run-2 counts 1 crashed, 8 ok, but has 1 crashed, 4 ok, 4 wrong."]
    newest, one = found.pop("measurements")
    assert newest.startswith(
        "12 of 15 measurements of run run-2 differ from those computed from its outcomes, "
    )
    assert one.startswith("3 of 15 measurements of run run-1 differ") and found == {}
    assert "measurements" not in problems(everything(url, unfinished={"run-1", "run-2"}))
    assert len(everything(url, newest=1)["measurements"].problems) == 1


def test_what_was_imported_is_taken_as_it_came(url: str, database: Database) -> None:
    filled(database)
    spoil(database, delete(tables.MeasurementRow).where(tables.MeasurementRow.run_number == 1))
    spoil(database, update(tables.RunRow).values(source=RunSource.IMPORTED))
    found = everything(url)
    assert problems(found) == {} and found["measurements"].count == 0
    assert found["measurements"].notes == ("3 runs are imported, and not compared",)


def test_points_out_of_place_and_out_of_order_are_found(url: str, database: Database) -> None:
    filled(database)
    run, point = tables.RunRow, tables.MeasurementRow
    spoil(database, update(run).where(run.id == "run-0").values(started_at=a_night(9)))
    spoil(database, update(point).where(point.run_number == 3, point.n == 2).values(smallest=point.point + 1))
    other = insert(tables.HardwareRow).values(fingerprint="other", label="8 x H200", facts={})
    with database.writing() as connection:
        other_id = connection.execute(other.returning(tables.HardwareRow.id)).scalar_one()
    spoil(database, update(run).where(run.id == "run-1").values(hardware_id=other_id))
    assert problems(everything(url))["points"] == [
        "15 measurements of run run-0 have the time of another run.",
        "15 measurements of run run-1 have the hardware or preset of another run.",
        "12 measurements of run run-2 contradict themselves.",
    ]


def test_what_cannot_be_read_back_is_found(url: str, database: Database) -> None:
    filled(database)
    samples, telemetry = tables.SamplesRow, tables.TelemetryRow
    spoil(
        database, update(samples).where(samples.run_number == 1, samples.replicate == 1).values(blob=b"sand")
    )
    spoil(database, update(telemetry).where(telemetry.run_number == 1).values(rows=4))
    spoil(database, update(telemetry).where(telemetry.run_number == 2).values(seconds=5.0))
    spoil(database, update(telemetry).where(telemetry.run_number == 3).values(codec=9))
    found = problems(everything(url))
    assert len(found["samples"]) == 4 and "The stored samples cannot be read: " in found["samples"][0]
    assert len(found["telemetry"]) == 12
    newest, *_, oldest = found["telemetry"]
    assert "is too old to read" in newest and "has 3 rows, but its column says 4" in oldest
    assert found.keys() == {"samples", "telemetry"}


def test_an_undefined_metric_is_found(url: str, database: Database) -> None:
    filled(database)
    names = {key.metric for key in series_queries.series_keys(database)}
    foreign = {min(names), max(names)}

    def said(own: Collection[str] = names - foreign) -> list[str]:
        with open_read_only(url) as looked_at:
            found = metric_check(looked_at, dict.fromkeys(own, "ms"))
        assert found.count == len(names) and all(problem.mend for problem in found.problems)
        return [problem.sentence for problem in found.problems]

    assert said() == [f"Metric {name} has 3 series and no known unit." for name in sorted(foreign)]
    save_metrics(database, [MetricDefinition(min(names), "", "x", "higher")])
    assert said() == [f"Metric {max(names)} has 3 series and no known unit."]
    save_metrics(database, [MetricDefinition(max(names), "", "", "neither")])
    assert said() == []
    # A later Pyrometer measures a metric of that name, in a unit of its own.
    both = 'in "x", and Pyrometer\'s metric of that name is in "ms"'
    assert said(names - {max(names)}) == [f"Metric {min(names)} was imported {both}."]


def test_tasks_with_several_owners_or_none_are_found(url: str, database: Database) -> None:
    parts = [NewTask(part, "measure", {}) for part in "abcd"]
    queue.plan_run(database, "nightly", a_night(0), "timetable", parts, a_night(0))
    about = {"owner": "one", "labels": (), "jobs": ["measure"], "now": a_night(0)}
    for number in range(3):
        queue.claim(database, token=f"token-{number}", **about)
    queue.finish(database, "token-2", "done", {}, "", a_night(0))
    found = everything(url)
    assert problems(found) == {} and found["queue"].count == 4
    task, attempt = queue_tables.TaskRow, queue_tables.AttemptRow
    second = {"token": "t", "owner": "two", "started_at": a_night(0), "ended": "", "detail": ""}
    spoil(
        database,
        insert(attempt).values(task_id=1, number=2, **second),
        update(task).where(task.id == 2).values(token=None),
        update(attempt).where(attempt.task_id == 3).values(ended=""),
        update(task).where(task.id == 4).values(token="u"),
    )
    assert problems(everything(url))["queue"] == [
        "Task 1 of nightly is running with a token; its running attempts: 2.",
        "Task 2 of nightly is running with no token; its running attempts: 1.",
        "Task 3 of nightly is done with no token; its running attempts: 1.",
        "Task 4 of nightly is waiting with a token; its running attempts: 0.",
    ]


def test_rows_that_name_what_is_not_there_are_found(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/pyrometer.db"
    with open_database(url) as database:
        filled(database)
    with closing(sqlite3.connect(tmp_path / "pyrometer.db")) as connection, connection:
        connection.execute("DELETE FROM preset")
        connection.execute("DELETE FROM run_environment WHERE run_number = 1 AND position = 0")
    found = problems(everything(url))["references"]
    assert "3 rows of table run refer to rows of preset that do not exist." in found
    assert "Run run-0 has 5 outcomes of environments that are not in the run." in found


def test_looking_never_writes(url: str, database: Database) -> None:
    filled(database)
    with open_read_only(url) as looked_at, pytest.raises(DatabaseError), looked_at.reading() as connection:
        connection.execute(text("DELETE FROM measurement"))
    assert problems(everything(url)) == {}


def test_an_older_schema_is_said_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "pyrometer.db"
    path.write_bytes((Path(__file__).parent / "old_databases" / "0001.db").read_bytes())
    before = path.read_bytes()
    with open_read_only(f"sqlite:///{path}") as database:
        (problem,) = schema_check(database).problems
    assert problem.sentence.startswith("The database has schema 0001") and "db upgrade" in problem.mend
    assert path.read_bytes() == before


def damaged(path: Path, places: Iterable[int]) -> None:
    content = bytearray(path.read_bytes())
    for place in places:
        content[place : place + 64] = b"\xa5" * 64
    path.write_bytes(content)


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 3, 7])
def test_a_damaged_file_is_said_in_sentences(tmp_path: Path, every: int) -> None:
    path = tmp_path / "pyrometer.db"
    with open_database(f"sqlite:///{path}") as database:
        filled(database)
    size = path.stat().st_size
    damaged(path, range(4096 * 8, size - 64, 4096 * every))
    with open_read_only(f"sqlite:///{path}") as database:
        found = [run_check(name, unit, lambda one=look: one(database)) for name, unit, look in WHOLE]
    said = [problem.sentence for each in found for problem in each.problems]
    assert any("damaged" in one or "malformed" in one for one in said)
    assert all("Traceback" not in one for one in said)
