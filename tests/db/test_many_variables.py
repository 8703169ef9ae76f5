"""However many series and runs there are: no question needs more variables than a stock SQLite takes."""

import sqlite3
from collections.abc import Iterator

import pytest
from sqlalchemy import event

from db.connection import statements
from db.connection.engine import Database, open_database
from db.runs import queries, releases, series_queries
from db.runs.store import save_measurements, save_outcomes, save_run
from support.builders.run_records import (
    a_machine,
    a_night,
    a_preset,
    a_run,
    an_environment,
    an_outcome,
    measurements_for,
)
from support.sqlite_files import sqlite_with_tables

pytestmark = pytest.mark.slow

#: Fewer than there are series or runs, and three batches: a stock SQLite takes 32,766, a batch is 10,000.
VARIABLES = 100
MANY = 150
TORCH = "2.13.0+cpu"


def _limit(connection: sqlite3.Connection, *_: object) -> None:
    connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, VARIABLES)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Many runs, the newest of many cases, behind connections that take few variables. Tests only read."""
    url = sqlite_with_tables(tmp_path_factory.mktemp("many") / "pyrometer.db")
    cases = [f"case_{number}/infer/-/eager" for number in range(MANY)]
    newest = [an_outcome(case, environment=an_environment(TORCH), blocks=()) for case in cases]
    with pytest.MonkeyPatch.context() as patch, open_database(url) as opened:
        patch.setattr(statements, "BATCH", VARIABLES // 3)
        for night in range(MANY):
            save_run(opened, a_run(f"night-{night}", started_at=a_night(night)))
        save_outcomes(opened, f"night-{MANY - 1}", newest)
        save_measurements(opened, f"night-{MANY - 1}", measurements_for(newest))
        event.listen(opened.engine, "checkout", _limit)
        yield opened


def test_all_runs_are_listed(database: Database) -> None:
    found = queries.recent_runs(database, limit=MANY)
    assert [run.id for run in found] == [f"night-{night}" for night in reversed(range(MANY))]
    assert {run.torch_versions for run in found} == {(TORCH,)}


@pytest.mark.parametrize("newest", [None, 1])
def test_all_series_have_their_points(database: Database, newest: int | None) -> None:
    keys = series_queries.series_keys(database)
    assert len(keys) == 3 * MANY
    assert len(series_queries.series(database, keys, newest=newest)) == 3 * MANY
    found = series_queries.points_of_runs(database, [f"night-{MANY - 1}"], ["latency", "rss_peak"])
    assert len(found) == 2 * MANY


def test_places_of_many_series_are_found(database: Database) -> None:
    place = a_machine().hardware.fingerprint, a_preset().fingerprint
    assert releases.technique_versions(database, "latency", *place) == frozenset()
    assert releases.version_places(database, "latency", [TORCH]) == {(TORCH, *place)}
    for newest in (1, 2):
        assert len(releases.points_of_version(database, "latency", TORCH, newest=newest)) == MANY
