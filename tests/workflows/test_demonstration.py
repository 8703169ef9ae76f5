"""The made-up history: it is stored as a measured one is, the same at each call, and says what it is."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from db.connection.engine import open_database
from db.findings.store import findings
from db.runs import queries
from records.findings import FindingState
from records.kinds import RunCategory
from records.runs import RunsOnly
from workflows import demonstration
from workflows.load_run import judge_loaded, load_run

pytestmark = pytest.mark.slow

NOW = datetime(2026, 11, 26, 9, 0, tzinfo=UTC)


def test_nights_a_regression_and_an_upgrade(tmp_path: Path) -> None:
    url = demonstration.write(tmp_path, NOW)
    with open_database(url) as database:
        runs = queries.recent_runs(database, limit=100)
        assert len(runs) == 22 and {run.machine for run in runs} == {demonstration.MACHINE}
        assert all(set(run.counts) <= {"ok", "skipped"} for run in runs)
        assert max(run.started_at for run in runs) < NOW
        (found,) = findings(database)
        assert (found.state, found.direction) == (FindingState.CONFIRMED, "worse")
        assert found.old_torch_version != found.new_torch_version
        notes = {note for run in runs if (one := queries.run_record(database, run.id)) for note in one.notes}
        assert notes == {"made-up data: nothing was measured"}
        (upgrade,) = queries.recent_runs(database, limit=100, only=RunsOnly("", "", "", RunCategory.UPGRADE))
    judged = judge_loaded(load_run(tmp_path, upgrade.id, lambda: open_database(url)))
    assert judged is not None and judged.upgrade.decision == "go"


@pytest.mark.parametrize(("hour", "day"), [(3, 25), (9, 26), (23, 26)])
def test_it_ends_with_the_night_before_so_that_nothing_is_late(tmp_path: Path, hour: int, day: int) -> None:
    now = NOW.replace(hour=hour)
    with open_database(demonstration.write(tmp_path, now)) as database:
        started = [run.started_at for run in queries.recent_runs(database, limit=100)]
    assert max(started) == datetime(2026, 11, day, 2, 30, tzinfo=UTC) < now


def test_the_same_moment_gives_the_same_history(tmp_path: Path) -> None:
    journals = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        demonstration.write(tmp_path / name, NOW)
        journals.append(
            [path.read_bytes() for path in sorted((tmp_path / name / "runs").glob("*/journal.jsonl"))]
        )
    assert journals[0] == journals[1]
