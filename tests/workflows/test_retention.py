"""Telemetry goes with its outcome through journal and database, and after its days alone."""

import json
import sqlite3
import zlib
from contextlib import closing
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.commands.database import app
from db.connection.engine import Database, open_database
from db.runs import queries, store
from db.telemetry import queries as telemetry
from records.outcomes import Outcome, PlannedReplicate
from records.telemetry import Recording
from runner.journal import FILE, Journal
from support.builders.journals import a_header
from support.builders.run_records import MLP, a_recording, a_run, an_environment, an_outcome
from support.servers.databases import BOTH
from support.sqlite_files import sqlite_with_tables
from workflows.database_upkeep import FOR_EVER, Retention, prune
from workflows.ingest import finite_outcome, ingest
from workflows.recorder import Recorder

ENVIRONMENT = an_environment().fingerprint
NOW = datetime.now(UTC)

ROWS = Recording(
    "GPU-1", "NVIDIA H200", "gpm", (5, 9), (9, 12), {"sm_utilisation": (97.25, None)}, ("no NVLink",)
)
OUTCOME = Outcome(MLP, ENVIRONMENT, 0, "ok", metrics={"latency": 2.0}, blocks=((5, 6),), telemetry=(ROWS,))


def a_run_of(
    folder: Path, url: str, notes: list[str], kept: Retention = FOR_EVER, name: str = "tonight"
) -> Path:
    """One measured and recorded run; returns its journal."""
    header = a_header(name, (PlannedReplicate(MLP, ENVIRONMENT, 0),))
    journal = Journal(folder / header.run)
    journal.header(header.to_body())
    recorder = Recorder(journal, header, lambda: open_database(url, timeout=0.2), notes.append, kept)
    recorder.begin()
    recorder.outcome(OUTCOME)
    recorder.between_sessions()
    assert recorder.end("complete")
    return journal.path


def an_old_run(database: Database, name: str, days: float) -> None:
    """A run that was observed so many days ago."""
    store.save_run(database, a_run(name, started_at=NOW - timedelta(days=days)))
    store.save_outcomes(database, name, [an_outcome(telemetry=[a_recording()])])


def observed_runs(database: Database) -> set[str]:
    return {each.run for each in telemetry.windows(database)}


@pytest.mark.slow
def test_a_recording_reaches_the_database_as_it_was_measured(
    tmp_path: Path, url: str, database: Database
) -> None:
    notes: list[str] = []
    path = a_run_of(tmp_path, url, notes, Retention(90))
    about = ("tonight", MLP, ENVIRONMENT, 0, "GPU-1")
    assert telemetry.recording(database, *about) == ROWS
    assert ingest(path, database).new_outcomes == 0, "the journal holds nothing that is not stored"
    assert len(telemetry.windows(database)) == 1 and notes == []
    with open_database(sqlite_with_tables(tmp_path / "another.db")) as another:
        assert ingest(path, another).new_outcomes == 1
        assert telemetry.recording(another, *about) == ROWS


def test_a_journal_from_before_telemetry_goes_in(tmp_path: Path, url: str) -> None:
    path = a_run_of(tmp_path, url, [])
    older: list[bytes] = []
    for raw in path.read_bytes().splitlines():
        line = json.loads(raw)
        line["body"].pop("telemetry", None)
        packed = json.dumps([line["kind"], line["body"]], sort_keys=True, separators=(",", ":"))
        older.append(json.dumps(line | {"crc": zlib.crc32(packed.encode())}).encode() + b"\n")
    folder = tmp_path / "older" / "tonight"
    folder.mkdir(parents=True)
    (folder / FILE).write_bytes(b"".join(older))
    with open_database(sqlite_with_tables(tmp_path / "another.db")) as another:
        done = ingest(folder / FILE, another)
        assert (done.new_outcomes, done.set_aside) == (1, ())
        assert [m.metric for m in queries.measurements_of_run(another, "tonight")] == ["latency"]
        assert telemetry.windows(another) == []


def test_what_is_no_number_is_stored_as_missing() -> None:
    rows = Recording("host", "", "none", (1, 2), (2, 3), {"steal": (float("nan"), float("inf"))})
    (stored,) = finite_outcome(Outcome(MLP, ENVIRONMENT, 0, "ok", telemetry=(rows,))).telemetry
    assert stored.values == {"steal": (None, None)}


def test_the_end_of_a_run_deletes_old_telemetry_and_says_so(
    tmp_path: Path, url: str, database: Database
) -> None:
    an_old_run(database, "older", 31)
    an_old_run(database, "younger", 29)
    notes: list[str] = []
    a_run_of(tmp_path, url, notes, Retention(30))
    assert observed_runs(database) == {"younger", "tonight"}
    assert queries.samples(database, "older", MLP, ENVIRONMENT, 0)
    (note,) = notes
    assert note.startswith("deleted 1 recording (0.")
    assert note.endswith(" KiB) of runs that started more than 30 days ago; all metrics stay")


def test_a_run_without_days_keeps_all(tmp_path: Path, url: str, database: Database) -> None:
    an_old_run(database, "older", 3000)
    a_run_of(tmp_path, url, [])
    assert observed_runs(database) == {"older", "tonight"}


def test_telemetry_that_cannot_be_deleted_costs_the_run_nothing(
    tmp_path: Path, url: str, database: Database
) -> None:
    an_old_run(database, "older", 31)
    with closing(sqlite3.connect(tmp_path / "pyrometer.db")) as connection:
        connection.execute(
            "CREATE TRIGGER stuck BEFORE DELETE ON telemetry BEGIN SELECT RAISE(FAIL, 'stuck'); END"
        )
    notes: list[str] = []
    a_run_of(tmp_path, url, notes, Retention(30))
    (note,) = notes
    assert "stuck. Old telemetry or samples are still there" in note
    assert observed_runs(database) == {"older", "tonight"}


def test_more_days_than_the_calendar_has_keep_all(database: Database) -> None:
    an_old_run(database, "older", 30_000)
    assert not [
        *prune(database, Retention(10**9, 10**9)),
        *prune(database, Retention(10**15, 10**15)),
        *prune(database, FOR_EVER),
    ]
    (gone,) = prune(database, Retention(1))
    assert gone.startswith("1 recording (")
    assert gone.endswith("of runs that started more than 1 day ago; all metrics stay")


def test_samples_stay_unless_there_is_a_number_of_days(tmp_path: Path, url: str, database: Database) -> None:
    an_old_run(database, "older", 401)
    an_old_run(database, "younger", 399)
    about = MLP, ENVIRONMENT, 0
    before = queries.outcomes_of_run(database, "older")
    a_run_of(tmp_path, url, [], Retention(30))
    assert queries.samples(database, "older", *about)
    (would,) = prune(database, Retention(samples_days=400), dry_run=True)
    assert queries.samples(database, "older", *about), "a dry run deletes nothing"
    notes: list[str] = []
    a_run_of(tmp_path, url, notes, Retention(30, 400), "another")
    assert notes == [f"deleted {would}"]
    assert would.startswith("the samples of 1 outcome (0.")
    assert would.endswith(" KiB) of runs that started more than 400 days ago; all metrics stay")
    assert queries.samples(database, "older", *about) is None
    assert queries.samples(database, "younger", *about)
    assert queries.outcomes_of_run(database, "older") == before and before[0].metrics


def test_more_runs_than_one_transaction_takes_all_go(database: Database) -> None:
    for number in range(60):
        an_old_run(database, f"run {number}", 100 + number)
    (would,) = prune(database, Retention(samples_days=102), dry_run=True)
    assert list(prune(database, Retention(samples_days=102))) == [would] and would.startswith(
        "the samples of 58 "
    )
    assert not list(prune(database, Retention(samples_days=102)))


@pytest.mark.parametrize("url", BOTH[1:], indirect=True)
def test_a_machine_whose_clock_is_ahead_deletes_nothing_of_the_others(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ahead(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return NOW + timedelta(days=4000)

    an_old_run(database, "younger", 29)
    an_old_run(database, "older", 31)
    monkeypatch.setattr("workflows.database_upkeep.datetime", Ahead)
    (gone,) = prune(database, Retention(30, 400))
    assert gone.startswith("1 recording (") and observed_runs(database) == {"younger"}


@pytest.fixture
def typed(bare_folder: Path) -> CliRunner:
    """The command line in a folder that keeps telemetry for 30 days."""
    (bare_folder / "pyrometer.toml").write_text("telemetry_days = 30")
    return CliRunner()


def test_the_command_is_a_dry_run_unless_confirmed(typed: CliRunner, database: Database) -> None:
    for days in (1, 31, 100):
        an_old_run(database, f"{days} days", days)
    for arguments in ([], ["--dry-run"]):
        dry_run = typed.invoke(app, ["prune", *arguments])
        assert dry_run.exit_code == 0 and dry_run.stdout.startswith("would delete 2 recordings (")
        assert "more than 30 days ago" in dry_run.stdout and dry_run.stdout.endswith("--yes deletes it\n")
    assert len(observed_runs(database)) == 3
    assert typed.invoke(app, ["prune", "--telemetry-days", "99", "--yes"]).stdout.startswith(
        "deleted 1 recording ("
    )
    assert observed_runs(database) == {"1 days", "31 days"}
    typed.invoke(app, ["prune", "--yes"])
    assert observed_runs(database) == {"1 days"} and queries.count_runs(database) == 3
    assert typed.invoke(app, ["prune"]).stdout == "nothing is old enough to be deleted\n"
    would, did = (
        typed.invoke(app, ["prune", "--samples-days", "50", *yes]).stdout for yes in ([], ["--yes"])
    )
    assert would.startswith("would delete the samples of 1 outcome (")
    assert did == would.replace("would delete", "deleted").replace("; --yes deletes it", "")


def test_mistakes_of_the_command_make_and_delete_nothing(typed: CliRunner, tmp_path: Path) -> None:
    missing = typed.invoke(app, ["prune", "--yes"])
    assert (missing.exit_code, missing.stdout) == (2, "") and "There is no database" in missing.stderr
    assert not (tmp_path / "pyrometer.db").exists()
    for option in ("--telemetry-days", "--samples-days"):
        assert typed.invoke(app, ["prune", option, "0"]).exit_code == 2
