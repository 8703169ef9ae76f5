"""What was exported and stored elsewhere is exported again as the same lines, from either database."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import update

from db.connection.engine import Database, open_database
from db.runs import metric_definitions, queries, store
from db.schema import core_tables as tables
from interchange.importers import pyrometer
from interchange.runs import ImportBatch
from records.outcomes import MetricDefinition
from support.builders.run_records import (
    BERT,
    MLP,
    RESNET,
    a_night,
    a_recording,
    a_run,
    an_environment,
    an_outcome,
)
from support.builders.stored_run import store_run
from support.servers.databases import on_both
from support.sqlite_files import sqlite_with_tables
from workflows.errors import NoSuchRun
from workflows.transfer import export_runs
from workflows.transfer.export_runs import ExportCounts, Format

pytestmark = pytest.mark.slow

SPEEDUP = MetricDefinition("dynamo.speedup", "Speed-up", "x", "higher")
OLD, NEW = an_environment("2.12.1"), an_environment("2.13.0")


def fill(database: Database) -> None:
    """Two runs: one with all there is, of two environments at the same moments; one from outside."""
    run = a_run("20260901-020000-aaaa", environments=[NEW, OLD], planned=6, notes=("naïve — 測定",))
    run = replace(run, started_at=run.started_at + timedelta(microseconds=1))
    recordings = [
        a_recording("host", values={"cpu_busy": (0.1, None, 100.0), "cpu0": (1 / 3, 2 / 3, 1.0)}),
        a_recording(
            "GPU-2",
            utilisation_source="gpm",
            values={"power": (700.125, 0.1 + 0.2, None)},
            notes=("no link",),
        ),
    ]
    outcomes = [
        an_outcome(case, environment=environment, replicate=replicate, latency=1 / 3, telemetry=recordings)
        for case in (RESNET, MLP)
        for replicate in (1, 0)
        for environment in (OLD, NEW)
    ]
    facts = {"nested": {"deep": [1, 1.0, None, True, "é\ud83d"]}, "big": 2**80}
    outcomes.append(an_outcome(BERT, environment=NEW, status="oom", facts=facts, log_tail="Killed\n\x1b[31m"))
    store_run(database, run, outcomes)
    other = a_run("20260902-020000-torchbench-0badcafe", started_at=a_night(1), state="interrupted")
    point = an_outcome("alexnet/train/-/eager", metrics={SPEEDUP.name: 1.1}, blocks=(), facts={})
    metric_definitions.save_metrics(database, [SPEEDUP])
    store_run(database, other, [point])


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Database]:
    """An SQLite database with both runs."""
    with open_database(sqlite_with_tables(tmp_path / "filled.db")) as opened:
        fill(opened)
        yield opened


def exported(
    database: Database, names: Sequence[str], form: Format = "pyrometer", table: str = ""
) -> tuple[bytes, ExportCounts, list[str]]:
    """The bytes of an export, what it says it wrote, its notes."""
    sink, notes = io.BytesIO(), list[str]()
    done = export_runs.export(
        database, names, sink, form=form, table=table, progress=lambda _: None, note=notes.append
    )
    return sink.getvalue(), done, notes


@on_both
def test_what_was_exported_and_stored_elsewhere_gives_the_same_lines(
    filled: Database, database: Database, tmp_path: Path
) -> None:
    first, done, notes = exported(filled, export_runs.all_run_ids(filled))
    assert (done.runs, done.outcomes, done.measurements, notes) == (2, 10, 13, [])
    path = tmp_path / "runs.jsonl"
    path.write_bytes(first)
    found = pyrometer.read_runs(path)
    assert (found.set_aside, found.metrics) == ((), (SPEEDUP,))
    metric_definitions.save_metrics(database, found.metrics)
    for one in found.runs:
        store.save_run(database, one.run)
        # Backwards: the order in which they came is not kept in any row.
        store.save_outcomes(database, one.run.id, one.outcomes[::-1])
        store.save_measurements(database, one.run.id, one.measurements[::-1])
    again, _, notes = exported(database, export_runs.all_run_ids(database))
    assert notes == []
    assert again.splitlines()[:-1] == first.splitlines()[:-1]
    for name in export_runs.all_run_ids(filled):
        assert queries.run_summary(database, name) == queries.run_summary(filled, name)


@on_both
@pytest.mark.parametrize("form", ["csv", "parquet", "oss-v3"])
def test_both_databases_give_the_same_files(filled: Database, database: Database, form: Format) -> None:
    fill(database)
    for table in ("measurements", "telemetry") if form != "oss-v3" else ("",):
        one, done, _ = exported(filled, export_runs.all_run_ids(filled), form, table)
        two, _, _ = exported(database, export_runs.all_run_ids(database), form, table)
        assert one == two
        assert done.runs == 2


def test_latest_is_the_run_that_started_last_and_each_is_taken_once(filled: Database) -> None:
    newest = "20260902-020000-torchbench-0badcafe"
    assert export_runs.requested_run_ids(filled, ["latest", newest, "20260901-020000-aaaa"]) == [
        newest,
        "20260901-020000-aaaa",
    ]
    with pytest.raises(NoSuchRun, match='unknown run "20260901-020000-aaab": did you mean'):
        export_runs.requested_run_ids(filled, ["20260901-020000-aaab"])


def test_an_empty_database_has_nothing_to_export(tmp_path: Path) -> None:
    with open_database(sqlite_with_tables(tmp_path / "empty.db")) as empty:
        for ask in (
            lambda: export_runs.requested_run_ids(empty, ["latest"]),
            lambda: export_runs.all_run_ids(empty),
        ):
            with pytest.raises(NoSuchRun, match="no run is stored yet"):
                ask()


def test_samples_that_cannot_be_read_back_keep_nothing_else_from_going_out(
    filled: Database, tmp_path: Path
) -> None:
    with filled.writing() as connection:
        connection.execute(update(tables.SamplesRow).values(blob=b"damaged"))
        connection.execute(update(tables.TelemetryRow).values(codec=99))
    content, done, notes = exported(filled, ["20260901-020000-aaaa"])
    assert (done.outcomes, done.measurements) == (9, 12)
    # Of eight outcomes the samples, and the recordings of two devices.
    assert len(notes) == 8 + 16
    assert any("The stored samples cannot be read: " in note for note in notes)
    (tmp_path / "run.jsonl").write_bytes(content)
    found = pyrometer.read_runs(tmp_path / "run.jsonl")
    assert [len(each.blocks) for each in found.runs[0].outcomes] == [0] * 9
    assert found.runs[0].measurements == tuple(export_runs.exported_run(filled, done_run(found)).measurements)


def done_run(found: ImportBatch) -> str:
    """The id of the only run."""
    (one,) = found.runs
    return one.run.id


def test_a_run_that_is_not_over_is_exported_with_a_note(tmp_path: Path) -> None:
    with open_database(sqlite_with_tables(tmp_path / "running.db")) as database:
        store.save_run(database, a_run("run-9", state="running"))
        _, done, notes = exported(database, ["run-9"])
    assert done.runs == 1
    assert notes == ["run run-9 has not ended: only the part stored so far is exported"]


def test_every_column_of_a_recording_has_its_unit(filled: Database) -> None:
    content, _, _ = exported(filled, ["20260901-020000-aaaa"], "csv", "telemetry")
    rows = [line.split(",") for line in content.decode().splitlines() if "host" in line or "GPU-2" in line]
    assert {(row[-6], row[-5]) for row in rows if MLP in row} == {
        ("cpu_busy", "%"),
        ("cpu0", "%"),
        ("power", "W"),
    }


def test_all_runs_come_by_when_they_started_and_not_by_name(tmp_path: Path) -> None:
    with open_database(sqlite_with_tables(tmp_path / "some.db")) as database:
        for name, night in (("undated-timm-01", 0), ("20260902-020000-b", 1), ("20260901-020000-a", 2)):
            store.save_run(database, a_run(name, started_at=a_night(night)))
        store.save_run(database, a_run("20260901-020000-0", started_at=a_night(2)))
        names = export_runs.all_run_ids(database)
    assert names == ["undated-timm-01", "20260902-020000-b", "20260901-020000-0", "20260901-020000-a"]
