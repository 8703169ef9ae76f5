"""On a real server each role of deploy/roles.sql can do what it must, and nothing else."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import make_url, text

from db.admin.backup import back_up
from db.admin.check import open_read_only, schema_check
from db.admin.prune import prune_queue, prune_samples, prune_telemetry
from db.connection import engine
from db.connection.engine import Database, open_database
from db.errors import DatabaseError, ReadOnly
from db.findings import notices
from db.findings import store as findings
from db.queue import commands as queue
from db.runs import queries, series_queries, store, traces
from db.runs import releases as runs_releases
from db.schema import core_tables as tables
from db.schema.finding_tables import ACTIONS
from db.telemetry import queries as telemetry
from records.evidence import Confirmation
from records.findings import NewFinding, Notice
from records.tasks import NewTask, SchedulerSeen
from support.builders.run_records import (
    MLP,
    a_night,
    a_recording,
    a_run,
    an_environment,
    an_outcome,
    measurements_for,
)
from support.builders.stored_run import store_run
from support.servers.postgres import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

ROLES = Path(__file__).parents[3] / "deploy" / "roles.sql"
OWNER, WRITER, READER = "pyrometer_owner", "pyrometer_writer", "pyrometer_reader"


@dataclass(frozen=True, slots=True)
class Site:
    """A database with roles; the URLs of a superuser and of each role."""

    superuser: str
    owner: str
    writer: str
    reader: str


def give_roles(postgres: PostgresServer, url: str) -> str:
    """Run the file with psql, as its head says; answers what psql printed."""
    command = [
        postgres.binaries / "psql",
        "-q",
        "-v",
        "ON_ERROR_STOP=1",
        f"--dbname={url}",
        f"--file={ROLES}",
    ]
    return subprocess.run(command, text=True, check=True, stderr=subprocess.PIPE).stderr


@pytest.fixture
def site(postgres: PostgresServer) -> Iterator[Site]:
    url = postgres.new_database("postgres")
    assert give_roles(postgres, url) == ""
    yield Site(url, *(url_of(url, role) for role in (OWNER, WRITER, READER)))
    postgres.drop_database(url)


def url_of(url: str, role: str) -> str:
    """The URL of a database as a role opens it."""
    return make_url(url).set(username=role).render_as_string(hide_password=False)


def ingest(url: str) -> None:
    """What a run does with the database."""
    with open_database(url) as database:
        for night in range(2):
            run = f"run-{night}"
            outcomes = [an_outcome(replicate=number, telemetry=[a_recording()]) for number in range(2)]
            store.save_run(database, a_run(run, started_at=a_night(night), state="running"))
            store_run(database, a_run(run, started_at=a_night(night)), outcomes)
            store.save_measurements(database, run, measurements_for(outcomes))


def test_the_writer_stores_and_prunes_and_the_reader_sees_all_of_it(site: Site) -> None:
    ingest(site.writer)
    about = ("run-0", MLP, an_environment().fingerprint, 0)
    with open_database(site.reader, create=False) as database:
        assert queries.count_runs(database) == 2 and queries.run_ids(database) == {"run-0", "run-1"}
        assert queries.latest_run_id(database) == "run-1" and queries.recent_runs(database)
        assert queries.run_summary(database, "run-0") and queries.run_record(database, "run-0")
        assert queries.outcomes_of_run(database, "run-0") and queries.samples(database, *about)
        assert queries.measurements_of_run(database, "run-0") and series_queries.headlines(
            database, "latency"
        )
        assert series_queries.series(database, series_queries.series_keys(database))
        assert telemetry.windows(database) and telemetry.recording(database, *about, "host")
        assert traces.operator_tables(database) == []
        assert runs_releases.release_points(database, runs_releases.releases(database), "latency")
    with open_database(site.writer, create=False) as database:
        assert prune_telemetry(database, a_night(1)).count == prune_samples(database, a_night(1)).count == 2


def test_the_reader_writes_nothing(site: Site) -> None:
    ingest(site.writer)
    with open_database(site.reader) as database:
        for attempt in (
            lambda: store.save_run(database, a_run()),
            lambda: store.save_outcomes(database, "run-0", [an_outcome(replicate=9)]),
            lambda: prune_samples(database, a_night(9)),
        ):
            with pytest.raises(ReadOnly, match="may only be read by this account: permission denied"):
                attempt()
    statements = [
        statement
        for table in sorted(tables.Base.metadata.tables)
        for statement in (f"DELETE FROM {table}", f"TRUNCATE {table} CASCADE", f"DROP TABLE {table} CASCADE")
    ]
    assert allowed(site.reader, *statements) == []
    assert not allowed(
        site.reader,
        "UPDATE run SET suite = 'mine'",
        "INSERT INTO hardware (fingerprint, label, facts) VALUES ('', '', '')",
        "CREATE TABLE mine (name text)",
        "SELECT nextval('run_number_seq')",
    )


def one_night(database: Database) -> int:
    """What a scheduler does with the database; answers the id of a finding."""
    new = a_finding(database)
    task = NewTask("", "measure", {})
    about = {"owner": "one", "labels": (), "jobs": ["measure"], "now": a_night(0)}
    queue.seen_all(database, [SchedulerSeen("one", "bench-1", (), a_night(0), a_night(0), 1, "0.7.0")])
    for night in range(3):
        queue.plan_run(database, "nightly", a_night(night), "timetable", [task], a_night(0))
    queue.claim(database, token="a", **about)
    assert queue.beat_all(database, ["a"]) and queue.finish(database, "a", "done", {}, "", a_night(0))
    queue.claim(database, token="b", **about)
    assert queue.lose(database, "b", "", a_night(0), 1) == "lost"
    queue.gone_all(database, ["one"])
    (found,) = findings.save_findings(database, [new], a_night(3))
    assert findings.decide(database, found.id, "confirmed", 0.1, 0.0, 0.2, Confirmation(), a_night(3))
    assert findings.triage(database, found.id, "note", "ann", "", None, a_night(3))
    assert notices.save_notice(database, Notice("digest", "today", a_night(3), "", ""))
    assert prune_queue(database, a_night(9)) == 2
    return found.id


def a_finding(database: Database) -> NewFinding:
    """A candidate in what `ingest` stored."""
    names = an_environment().fingerprint, an_environment().fingerprint
    nights = "run-1", "run-0"
    key = series_queries.series_keys(database)[0]
    return NewFinding(key, "nightly", "nightly", "", "worse", "step", *nights, *names, 0.1)


def test_the_writer_schedules_and_the_reader_only_triages(site: Site) -> None:
    ingest(site.writer)
    with open_database(site.writer) as database:
        found = one_night(database)
    with open_database(site.reader, create=False) as database:
        for number, action in enumerate(ACTIONS):
            triaged = findings.triage(database, found, action, "bob", "text", a_night(9), a_night(4))
            assert triaged is not None and len(findings.triage_log(database, found)) == number + 2
        assert triaged.link == "text" and triaged.muted_until == a_night(9) and triaged.triage == "fixed"
        for attempt in (
            lambda: queue.plan_run(database, "nightly", a_night(9), "by hand", [], a_night(9)),
            lambda: queue.cancel(database, 3, a_night(9)),
            lambda: findings.save_findings(database, [a_finding(database)], a_night(9)),
            lambda: findings.decide(database, found, "refuted", 0.0, 0.0, 0.0, Confirmation(), a_night(9)),
            lambda: findings.set_state(database, [found], "machine"),
            lambda: notices.save_notice(database, Notice("digest", "now", a_night(3), "", "")),
        ):
            with pytest.raises(ReadOnly):
                attempt()
    columns = ("state = 'refuted'", "change = 0", "evidence = ''", "returns_of = 1")
    assert not allowed(
        site.reader,
        *(f"UPDATE finding SET {column}" for column in columns),
        "UPDATE triage SET who = 'ann'",
        "SELECT nextval('finding_id_seq')",
    )
    assert not allowed(site.writer, *(f"DELETE FROM {table}" for table in ("finding", "triage", "notice")))


def allowed(url: str, *statements: str) -> list[str]:
    """Those of the statements that a role is not refused; each is undone."""
    with open_database(url, create=False) as database:
        return [each for each in statements if not _refused(database, each)]


def _refused(database: Database, statement: str) -> bool:
    try:
        with database.writing() as connection:
            connection.execute(text(statement))
            raise KeyError
    except DatabaseError as error:
        return isinstance(error, ReadOnly)
    except KeyError:
        return False


def test_the_writer_changes_no_table_and_forgets_no_measurement(site: Site) -> None:
    ingest(site.writer)
    every = sorted(tables.Base.metadata.tables)
    kept = ("measurement", "outcome", "run", "series", "pyrometer_schema")
    statements = (
        *(f"DROP TABLE {table} CASCADE" for table in every),
        *(f"ALTER TABLE {table} ADD COLUMN mine text" for table in every),
        *(f"TRUNCATE {table} CASCADE" for table in every),
        *(f"DELETE FROM {table}" for table in kept),
        "UPDATE pyrometer_schema SET version_num = '9999'",
        "CREATE TABLE mine (name text)",
    )
    assert allowed(site.writer, *statements) == []
    assert allowed(site.writer, "DELETE FROM samples"), "refusing everything would prove nothing"


def test_the_owner_upgrades_and_what_it_makes_is_seen_by_the_others(
    site: Site, postgres: PostgresServer
) -> None:
    assert engine.upgrade(site.owner).before == engine.upgrade(site.owner).after
    with open_database(site.owner) as database, database.writing() as connection:
        connection.execute(text("CREATE TABLE later (id serial PRIMARY KEY, name text)"))
    look, insert = "SELECT * FROM later", "INSERT INTO later (name) VALUES ('a')"
    assert allowed(site.reader, look, insert) == [look]
    assert allowed(site.writer, insert) == [insert]
    # Once more changes nothing.
    give_roles(postgres, site.superuser)
    ingest(site.writer)
    assert not allowed(site.writer, "DELETE FROM run") and not allowed(site.reader, "DELETE FROM samples")


def test_roles_before_tables(postgres: PostgresServer) -> None:
    url = postgres.new_database("template0")
    assert "run this file again after `pyrometer db upgrade`" in give_roles(postgres, url)
    owner, writer = url_of(url, OWNER), url_of(url, WRITER)
    with pytest.raises(ReadOnly):
        open_database(writer)
    open_database(owner).close()
    give_roles(postgres, url)
    ingest(writer)
    assert not allowed(writer, "UPDATE pyrometer_schema SET version_num = '9999'")
    postgres.drop_database(url)


def test_a_reader_checks_and_backs_up(site: Site, tmp_path: Path) -> None:
    ingest(site.writer)
    with open_read_only(site.reader) as database:
        assert schema_check(database).problems == ()
    assert back_up(site.reader, tmp_path / "copy") > 10_000
