"""The made-up history: it is stored as a measured one is, the same at each call, and says what it is."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from analysis.dispatch_difference import CaseDifference, DispatchWarning
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the history of `NOW`, that tests only read."""
    made = tmp_path_factory.mktemp("demonstration")
    demonstration.write(made, NOW)
    return made


def test_nights_a_regression_and_an_upgrade(folder: Path) -> None:
    url = f"sqlite:///{folder}/pyrometer.db"
    with open_database(url, create=False) as database:
        runs = queries.recent_runs(database, limit=100)
        assert len(runs) == 22 and {run.machine for run in runs} == {demonstration.MACHINE}
        assert all(set(run.counts) <= {"ok", "skipped"} for run in runs)
        assert max(run.started_at for run in runs) == datetime(2026, 11, 26, 2, 30, tzinfo=UTC) < NOW
        (found,) = findings(database)
        assert (found.state, found.direction) == (FindingState.CONFIRMED, "worse")
        assert found.old_torch_version != found.new_torch_version
        difference = CaseDifference.from_body(found.evidence.confirmation.dispatch).difference
        assert difference is not None and difference.warnings == (DispatchWarning.REFERENCE_KERNEL,)
        notes = {note for run in runs if (one := queries.run_record(database, run.id)) for note in one.notes}
        assert notes == {"made-up data: nothing was measured"}
        (upgrade,) = queries.recent_runs(database, limit=100, only=RunsOnly("", "", "", RunCategory.UPGRADE))
    judged = judge_loaded(load_run(folder, upgrade.id, lambda: open_database(url)))
    assert judged is not None and judged.upgrade.decision == "go"


def test_bert_has_what_amp_adds_on_top_of_compiling(folder: Path) -> None:
    bert = "bert_base/train/batch=4,tokens=128"
    with open_database(f"sqlite:///{folder}/pyrometer.db", create=False) as database:
        (run,) = queries.recent_runs(database, limit=1)
        cases = {one.case for one in queries.outcomes_of_run(database, run.id)}
    techniques = ("eager", "compile=default", "precision=amp-bf16", "compile=default,precision=amp-bf16")
    assert {f"{bert}/{technique}" for technique in techniques} <= cases


def test_before_a_night_has_ended_the_one_before_is_the_last(tmp_path: Path) -> None:
    with open_database(demonstration.write(tmp_path, NOW.replace(hour=3))) as database:
        started = [run.started_at for run in queries.recent_runs(database, limit=100)]
    assert max(started) == datetime(2026, 11, 25, 2, 30, tzinfo=UTC)


def test_the_same_moment_gives_the_same_history(folder: Path, tmp_path: Path) -> None:
    demonstration.write(tmp_path, NOW)
    one, other = (
        {path.parent.name: path.read_bytes() for path in (each / "runs").glob("*/journal.jsonl")}
        for each in (folder, tmp_path)
    )
    assert one == other and one
