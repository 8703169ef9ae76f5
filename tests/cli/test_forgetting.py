"""`pyrometer db forget` and `db metric`: what goes, what stays, and what is refused."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli.registry import app
from db.connection.engine import Database, open_database
from db.runs import queries, series_queries, store
from db.runs.metric_definitions import metric_definitions, save_metrics
from records.outcomes import MetricDefinition
from runner import journal
from support.builders.journals import a_plan, write_journal
from support.builders.run_records import a_run, an_outcome, measurements_for
from support.sqlite_files import sqlite_with_tables
from workflows.ingest import ingest_pending


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder without settings, with one run in journal and database."""
    monkeypatch.setenv("PYROMETER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("PYROMETER_DATABASE_URL", sqlite_with_tables(tmp_path / "pyrometer.db"))
    monkeypatch.chdir(tmp_path)
    write_journal(tmp_path / "data", "run-1")
    with opened(tmp_path) as database:
        assert stored(tmp_path, database) == len(a_plan())
    return tmp_path


def opened(folder: Path) -> Database:
    return open_database(f"sqlite:///{folder}/pyrometer.db")


def stored(folder: Path, database: Database) -> int:
    """How many new outcomes the journals brought."""
    return sum(getattr(done, "new_outcomes", 0) for done in ingest_pending(folder / "data", database))


def typed(*words: str) -> Result:
    return CliRunner().invoke(app, ["db", *words])


def test_a_forgotten_run_goes_and_its_journal_stays_and_is_not_stored_again(folder: Path) -> None:
    dry = typed("forget", "run-1")
    assert dry.exit_code == 0
    assert dry.stdout.startswith("would forget run run-1: 14 outcomes") and "--yes deletes it" in dry.stdout
    path = folder / "data" / "runs" / "run-1" / journal.FILE
    content = path.read_bytes()
    assert not path.with_name("forgotten").exists()
    assert typed("forget", "run-1", "--yes").stdout.startswith("forgot run run-1: 14 outcomes")
    with opened(folder) as database:
        assert not queries.run_ids(database) and not series_queries.series_keys(database)
        assert stored(folder, database) == 0
        assert path.read_bytes() == content
    again = typed("forget", "run-1", "--yes")
    assert again.stdout == "run run-1 is not in the database; its journal is marked and stays\n"
    report = CliRunner().invoke(app, ["report", "run-1"])
    assert report.exit_code == 2 and "no run is stored yet" in report.stderr
    resumed = CliRunner().invoke(app, ["run", "--resume", "run-1"])
    assert resumed.exit_code == 4 and "run run-1 was forgotten: remove " in resumed.stderr
    path.with_name("forgotten").unlink()
    with opened(folder) as database:
        assert stored(folder, database) == len(a_plan())


def test_a_run_that_is_unknown_or_being_measured_is_not_forgotten(folder: Path) -> None:
    said = typed("forget", "run-2", "--yes")
    assert said.exit_code == 2 and 'did you mean "run-1"' in said.stderr
    path = folder / "data" / "runs" / "run-1"
    with journal.Journal(path):
        said = typed("forget", "run-1", "--yes")
    assert said.exit_code == 2 and "run run-1 is being measured" in said.stderr
    assert not (path / "forgotten").exists()
    with opened(folder) as database:
        assert queries.run_ids(database) == {"run-1"}


def test_a_metric_from_outside_is_corrected_and_no_number_changes(folder: Path) -> None:
    with opened(folder) as database:
        save_metrics(database, [MetricDefinition("tool.speed", "Speed", "ms", "higher")])
        point = an_outcome(metrics={"tool.speed": 2.0, "tool.lost": 3.0}, blocks=())
        store.save_run(database, a_run("20260901-020000-tool-0123abcd"))
        store.save_measurements(database, "20260901-020000-tool-0123abcd", measurements_for([point]))
    assert typed("metric", "tool.speed").stdout == "tool.speed: Speed, in ms, higher is better\n"
    said = typed("metric", "tool.speed", "--unit", "s", "--better", "lower")
    assert said.stdout == "tool.speed: Speed, in s, lower is better\n"
    assert typed("metric", "tool.speed", "--title", "Pace").exit_code == 0
    # An undefined one is defined whole, or not at all.
    half = typed("metric", "tool.lost", "--unit", "MiB")
    assert half.exit_code == 2 and "tool.lost" in half.stderr
    assert typed("metric", "tool.lost", "--unit", "", "--better", "neither").exit_code == 0
    with opened(folder) as database:
        assert metric_definitions(database) == {
            "tool.speed": MetricDefinition("tool.speed", "Pace", "s", "lower"),
            "tool.lost": MetricDefinition("tool.lost", "tool.lost", "", "neither"),
        }
        points = queries.measurements_of_run(database, "20260901-020000-tool-0123abcd")
        assert {each.metric: each.point for each in points} == {"tool.speed": 2.0, "tool.lost": 3.0}


def test_what_is_not_to_be_corrected_is_refused(folder: Path) -> None:
    own = typed("metric", "latency", "--unit", "s")
    assert own.exit_code == 2 and "metric latency is built in, with unit ms" in own.stderr
    unknown = typed("metric", "tool.speed", "--unit", "s")
    assert unknown.exit_code == 2 and "there is no metric tool.speed" in unknown.stderr
    assert typed("metric", "tool.speed", "--title", " ").exit_code == 2
