"""Every earlier schema is migrated to today's, and no database is left with half of one.

A new revision needs a file here too: `old_databases/REVISION.db`, made by the program as it was
before, with `python tests/db/test_migrations.py FILE`.
"""

import json
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, func, insert, inspect, select

from db.connection.connection import make_engine, parse_url
from db.connection.engine import Database, SchemaUpgrade, open_database, upgrade
from db.errors import DamagedTelemetry, DatabaseError, DatabaseUnavailable, SchemaTooNew, SchemaTooOld
from db.findings import notices
from db.findings import store as findings
from db.queue import commands as queue
from db.queue import queries as queue_queries
from db.runs import fingerprints, queries, series_queries, store
from db.runs import history as runs_history
from db.runs import releases as runs_releases
from db.schema import core_tables as tables
from db.schema import version as schema
from db.telemetry import queries as telemetry
from records.evidence import Confirmation, Evidence, evidence_body
from records.findings import Delivery, DeliveryState, NewFinding
from records.kinds import EnvironmentKind, RunKind, RunSource
from records.old_runs import kind_of_old_environment, kind_of_old_run, source_of_old_run
from records.outcomes import Outcome
from records.runs import Run
from records.series import Track
from records.tasks import NewTask, SchedulerSeen
from support.builders.run_records import (
    MLP,
    RESNET,
    a_case_fingerprint,
    a_night,
    a_recording,
    a_run,
    an_environment,
    an_outcome,
    fingerprint_conditions,
)
from support.builders.stored_run import store_run

pytestmark = pytest.mark.slow

OLD_DATABASES = sorted((Path(__file__).parent / "old_databases").glob("*.db"))

TODAY = schema.head()

_RECORDINGS = (
    a_recording(values={"cpu_busy": (12.5, None, 100 / 3), "tree_memory": (512.0, 512.25, 513.0)}),
    a_recording(
        "GPU-1",
        utilisation_source="gpm",
        values={"sm_utilisation": (97.1, 96.9, 0.1 + 0.2)},
        notes=("no NVLink",),
    ),
)

#: Runs as programs before schema 0008 stored them: id, command, facts, and what these said of each.
_OLD_RUNS = (
    ("20260901-020000-0123abcd", "pyrometer run", "{}", ("run", "measured", "")),
    ("20260901-030000-0123abcd", "pyrometer run", '{"timing":{"trace_steps":0}}', ("run", "measured", "")),
    (
        "20260901-040000-0123abcd",
        "pyrometer profile",
        '{"timing":{"trace_steps":9}}',
        ("trace", "measured", ""),
    ),
    ("20260901-050000-0123abcd", "pyrometer upgrade a b", "{}", ("upgrade", "measured", "")),
    (
        "20260901-060000-0123abcd",
        "pyrometer upgrade a b",
        '{"comparison":{"confirms":false},"said":"\\"confirms\\":true","load":NaN}',
        ("upgrade", "measured", ""),
    ),
    (
        "20260901-070000-0123abcd",
        "pyrometer upgrade a b",
        '{"comparison":{"old":"a","confirms":true}}',
        ("confirmation", "measured", ""),
    ),
    ("20260901-080000-0123abcd", "pyrometer bisect a b", '{"comparison":{}}', ("bisection", "measured", "")),
    ("20260901-090000-oss-v3-0123abcd", "pyrometer import", "{}", ("run", "imported", "oss-v3")),
    ("undated-asv-0123abcd4567ef89", "pyrometer import", "{}", ("run", "imported", "asv")),
    ("20260901-100000-submitted-0123abcd", "pyrometer submit", "{}", ("run", "submitted", "")),
)
#: Name, version of PyTorch and the run of an environment, and what it is.
_OLD_ENVIRONMENTS = (
    ("nightly", "2.14.0", "20260901-020000-0123abcd", "measured"),
    ("canary", "", "20260901-020000-0123abcd", "canary"),
    ("onnxruntime 1.20", "", "20260901-090000-oss-v3-0123abcd", "foreign"),
    ("canary", "", "undated-asv-0123abcd4567ef89", "foreign"),
    ("torch", "2.13.0", "20260901-100000-submitted-0123abcd", "foreign"),
)
#: How a notice said what became of it at each target.
_OLD_SENT = {
    "mail": "2026-09-02T04:00:00+02:00",
    "pager": "failed 3 2026-09-02T02:00:00+00:00 it did not answer: in time",
    "chat": "trying 1 2026-09-02T02:00:00+00:00",
}
_AT = datetime(2026, 9, 2, 2, tzinfo=UTC)
_DELIVERIES = {
    "mail": Delivery(DeliveryState.DELIVERED, _AT),
    "pager": Delivery(DeliveryState.FAILED, _AT, 3, "it did not answer: in time"),
    "chat": Delivery(DeliveryState.TRYING, _AT, 1),
}

#: Names that tables had before schema 0011.
_OLD_NAMES = {"scheduled_run": "fire", "preset": "profile"}

NEXT_REVISION = """
import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{head}"


def upgrade() -> None:
    with op.batch_alter_table("machine") as table:
        table.add_column(sa.Column("rack", sa.Text(), nullable=True))
        table.create_check_constraint(op.f("ck_machine_rack"), "rack <> ''")
    {then}
"""


def _examples() -> Iterator[tuple[Run, list[Outcome]]]:
    """What the old databases hold: two nights of two versions, one of them with a failure."""
    for number, version in enumerate(("2.12.1+cpu", "2.13.0+cpu")):
        environment = an_environment(version)
        outcomes = [
            an_outcome(case, environment=environment, replicate=replicate, latency=2 + number + replicate / 4)
            for case in (MLP, RESNET)
            for replicate in range(2)
        ]
        if number:
            failed = {"status": "crashed", "reason": "killed by signal 9", "log_tail": "Killed\n"}
            outcomes[-1] = an_outcome(RESNET, environment=environment, replicate=1, **failed)
        run = a_run(f"night-{number}", environments=[environment], started_at=a_night(number), planned=4)
        yield run, outcomes


def _fill(database: Database) -> None:
    for run, outcomes in _examples():
        store_run(database, run, outcomes)


def _fill_with_telemetry(database: Database) -> None:
    """A run that the oldest schemas have no place for."""
    store.save_run(database, a_run("observed", started_at=a_night(2)))
    store.save_outcomes(database, "observed", [an_outcome(MLP, telemetry=_RECORDINGS)])


def _fill_with_every_kind(database: Database) -> None:
    """A run of each kind and source, and the canary's environment: older schemas had no columns for them."""
    environments = (an_environment(), replace(an_environment("", "canary"), kind=EnvironmentKind.CANARY))
    for number, kind in enumerate(RunKind):
        run = a_run(f"kind-{kind}", environments=environments, started_at=a_night(number - 9))
        store.save_run(database, replace(run, kind=kind))
    for number, source in enumerate(RunSource):
        run = a_run(f"source-{source}", started_at=a_night(number - 19))
        name = "asv" if source == RunSource.IMPORTED else ""
        store.save_run(database, replace(run, source=source, source_format=name))


def _a_scheduler(**facts: Any) -> SchedulerSeen:
    return SchedulerSeen("bench-1/b/1/2", "bench-1", ("bench-1",), a_night(0), a_night(1), 7, "0.7.0", facts)


def _fill_with_a_schedule(database: Database) -> None:
    """Both nights as a schedule's, and a finding, for which the older schemas have no place."""
    queue.seen_all(database, [_a_scheduler(timezone="UTC")])
    sides = [an_environment(version).fingerprint for version in ("2.12.1+cpu", "2.13.0+cpu")]
    for number in range(2):
        task = NewTask("nightly", "measure", {"track": "nightly"})
        queue.plan_run(database, "nightly", a_night(number), "timetable", [task], a_night(number))
        about = {"owner": "one", "labels": (), "jobs": ["measure"], "now": a_night(number)}
        queue.claim(database, token=f"token-{number}", **about)
        queue.set_run(database, f"token-{number}", f"night-{number}")
        queue.finish(database, f"token-{number}", "done", {}, "", a_night(number))
    (key,) = (
        each for each in series_queries.series_keys(database) if (each.case, each.metric) == (MLP, "latency")
    )
    new = NewFinding(key, "nightly", "nightly", "", "worse", "step", "night-1", "night-0", *sides, 0.4)
    (found,) = findings.save_findings(database, [new], a_night(2))
    findings.decide(database, found.id, "confirmed", 0.4, 0.3, 0.5, Confirmation(run="night-1"), a_night(2))
    findings.triage(database, found.id, "expected", "ann", "a new default", None, a_night(3))


def _fill_with_fingerprints(database: Database) -> None:
    """Of two cases one fingerprint, for which schemas before 0010 have no place."""
    taken = [a_case_fingerprint(MLP), a_case_fingerprint(RESNET)]
    fingerprints.save_fingerprints(database, fingerprint_conditions(), taken)


def _assert_filled(database: Database) -> None:
    for run, outcomes in _examples():
        assert queries.run_record(database, run.id) == run
        assert {(each.case, each.replicate): each.status for each in outcomes} == {
            (each.case, each.replicate): each.status for each in queries.outcomes_of_run(database, run.id)
        }
        for each in outcomes:
            found = queries.samples(database, run.id, each.case, each.environment, each.replicate)
            assert (found or ()) == each.blocks
        assert len(queries.measurements_of_run(database, run.id)) == 6
    assert [headline.latest.run for headline in series_queries.headlines(database, "latency")] == [
        "night-1"
    ] * 2
    versions = ["2.13.0+cpu", "2.12.1+cpu"]
    assert runs_releases.releases(database) == versions
    mlp, _ = (runs_releases.release_points(database, [version], "latency")[0].median for version in versions)
    assert mlp == 3.125, "made of the measurement of the two replicates 3 and 3.25"


def _copy(file: Path, url: str) -> None:
    """Make in the empty database at `url` what is in an old SQLite file, schema and rows."""
    if url.startswith("sqlite"):
        shutil.copy(file, url.removeprefix("sqlite:///"))
        return
    old, new = (make_engine(parse_url(each), timeout=30) for each in (f"sqlite:///{file}", url))
    with old.connect() as source, new.begin() as target:
        config = schema._config(schema.MIGRATIONS)
        config.attributes["connection"] = target
        command.upgrade(config, file.stem)
        for table in tables.Base.metadata.sorted_tables:
            known = inspect(source)
            name = next(filter(known.has_table, (table.name, _OLD_NAMES.get(table.name, ""))), None)
            if name is None:
                continue
            # Columns of then, with today's types where they are still there.
            names = [each["name"] for each in known.get_columns(name)]
            today = {each.name: each.type for each in table.c}
            then = sa.table(name, *(sa.column(column, today.get(column)) for column in names))
            rows = source.execute(select(then)).mappings().all()
            if rows:
                target.execute(insert(then), [dict(row) for row in rows])
            if (key := table.autoincrement_column) is not None and rows:
                sequence = func.pg_get_serial_sequence(name, key.name)
                target.execute(select(func.setval(sequence, max(row[key.name] for row in rows))))
    for engine in (old, new):
        engine.dispose()


def _schema(connection: Connection) -> dict[str, Any]:
    """All that matters of a schema, and nothing of how it came about."""
    inspector = inspect(connection)

    def described(table: str) -> dict[str, Any]:
        constraints = [
            *inspector.get_foreign_keys(table),
            *inspector.get_unique_constraints(table),
            *inspector.get_check_constraints(table),
            *inspector.get_indexes(table),
            inspector.get_pk_constraint(table),
        ]
        columns = [
            (each["name"], str(each["type"]), each["nullable"], each["default"])
            for each in inspector.get_columns(table)
        ]
        return {"columns": sorted(columns), "constraints": sorted(map(str, constraints))}

    found: dict[str, Any] = {
        table: described(table) for table in inspector.get_table_names() if table != schema.VERSION_TABLE
    }
    if connection.dialect.name == "sqlite":
        rows = connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE sql LIKE '%WITHOUT ROWID%'")
        found["without rowid"] = sorted(rows.scalars())
    return found


def _schema_at(url: str) -> dict[str, Any]:
    engine = make_engine(parse_url(url), timeout=5)
    with engine.connect() as connection:
        found = _schema(connection)
    engine.dispose()
    return found


def _described_schema(url: str) -> dict[str, Any]:
    """The schema that the tables describe, made without any migration in the empty database at `url`."""
    engine = create_engine(parse_url(url))
    tables.Base.metadata.create_all(engine)
    engine.dispose()
    return _schema_at(url)


def _revision_in(file: Path) -> str:
    with closing(sqlite3.connect(file)) as connection:
        ((revision,),) = connection.execute(f"SELECT * FROM {schema.VERSION_TABLE}").fetchall()
    return revision


@pytest.fixture
def next_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Pyrometer of tomorrow, with one revision more; returns that revision's file."""
    migrations = tmp_path / "migrations of tomorrow (50%)"
    shutil.copytree(schema.MIGRATIONS, migrations, ignore=shutil.ignore_patterns("__pycache__"))
    file = migrations / "versions" / "9999_next.py"
    file.write_text(NEXT_REVISION.format(head=TODAY, then=""))
    monkeypatch.setattr(schema, "MIGRATIONS", migrations)
    return file


@pytest.fixture
def old_url(url: str) -> str:
    """A database with rows, as today's program leaves it."""
    with open_database(url) as database:
        _fill(database)
    return url


@pytest.fixture
def old_file(tmp_path: Path) -> Path:
    """The same, always SQLite's file."""
    path = tmp_path / "pyrometer.db"
    with open_database(f"sqlite:///{path}") as database:
        _fill(database)
    return path


def test_migrations_arrive_at_the_schema_that_the_tables_describe(
    empty_url: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    open_database(empty_url).close()
    if empty_url.startswith("sqlite"):
        other = f"sqlite:///{tmp_path}/described.db"
    else:
        other = request.getfixturevalue("postgres").new_database()
    migrated = _schema_at(empty_url)
    assert migrated == _described_schema(other)
    if empty_url.startswith("sqlite"):
        assert migrated["without rowid"] == ["measurement"]
    for name in (
        "ck_outcome_status",
        "ck_run_state",
        "fk_samples_outcome",
        "uq_run_id",
        "fk_telemetry_outcome",
        "ck_metric_better",
        "ix_environment_torch_version",
        "fk_task_schedule_due_at_scheduled_run",
        "uq_finding_series_id_schedule_track_label_at_run_direction",
        "ck_attempt_ended",
        "ix_run_machine_id_started_at",
    ):
        assert name in str(migrated), "what is not seen is not compared"


def test_files_are_named_after_their_revisions_and_each_left_an_old_database() -> None:
    scripts = ScriptDirectory.from_config(schema._config(schema.MIGRATIONS))
    assert {each.revision for each in scripts.walk_revisions()} == schema._revisions(schema.MIGRATIONS)
    assert schema._revisions(schema.MIGRATIONS) == {path.stem for path in OLD_DATABASES}
    assert scripts.get_current_head() == schema.head()


@pytest.mark.parametrize(
    "damaged", [b"", b"sand", lambda blob: blob[:-9], lambda blob: blob[:40] + blob[41:]]
)
def test_a_damaged_old_recording_is_damaged_and_stops_nothing(tmp_path: Path, damaged: Any) -> None:
    copy = tmp_path / "pyrometer.db"
    shutil.copy(OLD_DATABASES[6], copy)
    with closing(sqlite3.connect(copy)) as connection, connection:
        (blob,) = connection.execute("SELECT blob FROM telemetry WHERE device = 'GPU-1'").fetchone()
        spoiled = damaged(blob) if callable(damaged) else damaged
        connection.execute("UPDATE telemetry SET blob = ? WHERE device = 'GPU-1'", (spoiled,))
    about = ("observed", MLP, an_environment().fingerprint, 0)
    with open_database(f"sqlite:///{copy}") as database:
        assert telemetry.recording(database, *about, _RECORDINGS[0].device) == _RECORDINGS[0]
        with pytest.raises(DamagedTelemetry, match="The stored recording cannot be read: "):
            telemetry.recording(database, *about, "GPU-1")


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The schema that the tables describe, on SQLite."""
    return _described_schema(f"sqlite:///{tmp_path_factory.mktemp('described')}/pyrometer.db")


def _assert_like_a_new_file(path: Path, described: dict[str, Any]) -> None:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert _schema_at(f"sqlite:///{path}") == described


@pytest.mark.parametrize("path", OLD_DATABASES, ids=lambda path: path.stem)
def test_the_rows_of_every_schema_come_through(path: Path, empty_url: str, described: dict[str, Any]) -> None:
    _copy(path, empty_url)
    assert ("telemetry" in _schema_at(empty_url)) == (path.stem >= "0002")
    file = Path(empty_url.removeprefix("sqlite:///")) if empty_url.startswith("sqlite") else None
    if file is None:
        assert upgrade(empty_url).before == path.stem
    else:
        # It is brought up to date when it is opened.
        assert _revision_in(file) == path.stem
    with open_database(empty_url) as database:
        _assert_filled(database)
        _fill(database)
        _assert_filled(database)
        _assert_what_was_guessed_of_rows(database)
        if path.stem >= "0002":
            _assert_recordings(database)
        if path.stem >= "0005":
            _assert_a_schedule(database, path.stem)
        _fill_with_telemetry(database)
        _assert_filled(database)
        conditions, cases = fingerprint_conditions(), [MLP, RESNET]
        known = fingerprints.fingerprints_under(database, conditions, cases)
        assert len(known) == (2 if path.stem >= "0010" else 0)
        _fill_with_fingerprints(database)
        assert fingerprints.fingerprints_under(database, conditions, cases) == {
            case: a_case_fingerprint(case) for case in cases
        }
        assert [each.device for each in telemetry.windows(database)] == ["GPU-1", "host"]
    if file is not None:
        _assert_like_a_new_file(file, described)


def _assert_what_was_guessed_of_rows(database: Database) -> None:
    """Runs and environments of an old database have the kinds and sources that their names say."""
    for id in queries.run_ids(database):
        run = queries.run_record(database, id)
        assert run is not None
        about, _, name = id.partition("-")
        assert run.kind == (name if about == "kind" else RunKind.RUN)
        assert run.source == (name if about == "source" else RunSource.MEASURED)
        assert run.source_format == ("asv" if run.source == RunSource.IMPORTED else "")
        for each in run.environments:
            canary = each.name == "canary"
            assert each.kind == (EnvironmentKind.CANARY if canary else EnvironmentKind.MEASURED)


def _assert_recordings(database: Database) -> None:
    """Recordings of an old database are read as they were."""
    about = ("observed", MLP, an_environment().fingerprint, 0)
    found = [telemetry.recording(database, *about, each.device) for each in _RECORDINGS]
    assert tuple(found) == _RECORDINGS


def _assert_a_schedule(database: Database, revision: str) -> None:
    """What an old schedule did and found is read as it was, and it can be planned further."""
    assert [each.run_id for each in queue_queries.tasks(database, state="done")] == ["night-1", "night-0"]
    (history, *_) = runs_history.history(database, Track("nightly", "nightly", ""), ["latency"])
    assert [point.point for point in history.points] == [2.125, 3.125]
    (found,) = findings.findings(database)
    assert (found.state, found.triage) == ("confirmed", "expected")
    if revision >= "0010":
        assert found.evidence == Evidence(confirmation=Confirmation(run="night-1"))
    else:
        assert evidence_body(found.evidence) == {"pairs": 9}
    assert [each.text for each in findings.triage_log(database, found.id)] == ["a new default"]
    if revision >= "0006":
        assert queue_queries.schedulers(database) == [_a_scheduler(timezone="UTC")]
    assert queue.plan_run(database, "nightly", a_night(4), "timetable", [NewTask("", "x", {})], a_night(4))


def _insert_runs_of_every_kind(connection: Connection) -> None:
    """Rows as a program of schema 0007 wrote them, beside those of `old_databases/0007.db`."""
    same = "suite, started_at, state, machine_id, profile_id, harness, planned, notes, counts, hardware_id"
    insert_run = sa.text(
        f"INSERT INTO run (number, id, command, facts, {same}) "
        f"SELECT :number, :id, :command, :facts, {same} FROM run WHERE id = 'night-0'"
    )
    insert_environment = sa.text(
        "INSERT INTO environment (id, fingerprint, name, torch_version, python_version, facts) "
        "VALUES (:id, :fingerprint, :name, :torch, '3.12', '{}')"
    )
    link = sa.text("INSERT INTO run_environment SELECT number, :environment, 0 FROM run WHERE id = :run")
    for number, (run, text, facts, _) in enumerate(_OLD_RUNS, 101):
        connection.execute(insert_run, {"number": number, "id": run, "command": text, "facts": facts})
    for number, (name, version, run, _) in enumerate(_OLD_ENVIRONMENTS, 101):
        values = {"id": number, "fingerprint": f"old-{number}", "name": name, "torch": version}
        connection.execute(insert_environment, values)
        connection.execute(link, {"environment": number, "run": run})
    notice = "INSERT INTO notice VALUES (:kind, 'night', '2026-09-02 02:00:00+00:00', '', '', '{}', :sent)"
    for kind, sent in (("digest", json.dumps(_OLD_SENT)), ("release", "{}")):
        connection.execute(sa.text(notice), {"kind": kind, "sent": sent})


def test_what_was_guessed_of_old_rows_stands_in_columns(empty_url: str) -> None:
    _copy(OLD_DATABASES[0].with_name("0007.db"), empty_url)
    engine = make_engine(parse_url(empty_url), timeout=5)
    with engine.begin() as connection:
        _insert_runs_of_every_kind(connection)
    engine.dispose()
    upgrade(empty_url)
    with open_database(empty_url) as database:
        runs = [queries.run_record(database, run) for run, *_ in _OLD_RUNS]
        assert [each and (each.kind, each.source, each.source_format) for each in runs] == [
            (RunKind(kind), RunSource(source), format) for *_, (kind, source, format) in _OLD_RUNS
        ]
        for each in filter(None, runs):
            assert each.kind == kind_of_old_run(each.command, each.facts)
            assert (each.source, each.source_format) == source_of_old_run(each.id)
            for one in each.environments:
                assert one.kind == kind_of_old_environment(one.torch_version, each.source)
        with database.reading() as connection:
            kinds = select(tables.EnvironmentRow.kind).where(tables.EnvironmentRow.id > 100)
            found = connection.execute(kinds.order_by(tables.EnvironmentRow.id)).scalars().all()
        assert found == [EnvironmentKind(kind) for *_, kind in _OLD_ENVIRONMENTS]
        assert [each.deliveries for each in notices.notices(database)] == [_DELIVERIES, {}]


def test_sqlite_migrates_by_itself_after_a_copy(old_file: Path, next_revision: Path) -> None:
    url = f"sqlite:///{old_file}"
    with open_database(url) as database:
        _assert_filled(database)
    assert "rack" in str(_schema_at(url)["machine"])
    backup = old_file.with_name("pyrometer.db.before-9999")
    assert _revision_in(backup) == TODAY
    with closing(sqlite3.connect(backup)) as connection:
        assert connection.execute("SELECT id FROM run").fetchall() == [("night-0",), ("night-1",)]
    kept = backup.stat()
    open_database(url).close()
    assert backup.stat() == kept, "a database that is up to date is not copied again"


def test_a_migration_that_fails_changes_nothing(old_url: str, next_revision: Path) -> None:
    before = _schema_at(old_url)
    next_revision.write_text(NEXT_REVISION.format(head=TODAY, then="op.execute('SELECT nonsense')"))
    with pytest.raises(DatabaseError, match="nonsense"):
        upgrade(old_url)
    assert _schema_at(old_url) == before


def test_a_migration_that_orphans_rows_is_taken_back(old_file: Path, next_revision: Path) -> None:
    next_revision.write_text(NEXT_REVISION.format(head=TODAY, then="op.execute('DELETE FROM hardware')"))
    with pytest.raises(DatabaseError, match="rows with dangling references"):
        open_database(f"sqlite:///{old_file}")
    assert _revision_in(old_file) == TODAY
    with closing(sqlite3.connect(old_file)) as connection:
        assert connection.execute("SELECT count(*) FROM hardware").fetchone() == (1,)


def test_no_copy_no_migration(old_file: Path, next_revision: Path) -> None:
    old_file.with_name("pyrometer.db.before-9999").mkdir()
    with pytest.raises(DatabaseUnavailable):
        open_database(f"sqlite:///{old_file}")
    assert _revision_in(old_file) == TODAY


@pytest.mark.postgres
@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_postgres_migrates_only_on_request(old_url: str, next_revision: Path) -> None:
    with pytest.raises(SchemaTooOld, match=rf"has schema {TODAY}, .* needs 9999: run `pyrometer db upgrade`"):
        open_database(old_url)
    assert upgrade(old_url) == SchemaUpgrade(before=TODAY, after="9999", backup=None)
    assert upgrade(old_url) == SchemaUpgrade(before="9999", after="9999", backup=None)
    with open_database(old_url) as database:
        _assert_filled(database)


def test_an_upgrade_says_what_it_did(empty_url: str) -> None:
    assert upgrade(empty_url) == SchemaUpgrade(before=None, after=schema.head(), backup=None)
    with open_database(empty_url, create=False) as database:
        assert queries.count_runs(database) == 0


def test_a_database_of_tomorrow_is_refused(
    old_url: str, next_revision: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upgrade(old_url)
    monkeypatch.setattr(schema, "MIGRATIONS", Path(schema.__file__).parents[1] / "migrations")
    for attempt in (open_database, upgrade):
        with pytest.raises(SchemaTooNew, match=r"newer Pyrometer \(schema 9999; this one knows up to"):
            attempt(old_url)


def _write_old_database(path: Path) -> None:
    """Make one for `old_databases`: today's schema and a handful of rows, in small pages to keep it small."""
    with open_database(f"sqlite:///{path}") as database:
        _fill(database)
        _fill_with_telemetry(database)
        _fill_with_a_schedule(database)
        _fill_with_every_kind(database)
        _fill_with_fingerprints(database)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("PRAGMA journal_mode = DELETE; PRAGMA page_size = 512; VACUUM;")


if __name__ == "__main__":
    _write_old_database(Path(sys.argv[1]))
