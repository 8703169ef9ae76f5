"""What a file from outside cannot do to what was measured here: block it, change it, take its name."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from analysis.metrics import METRICS
from db.admin.delete_run import forget_run
from db.connection.engine import Database, open_database
from db.runs import queries
from interchange.runs import ImportedRun
from records.environments import Environment
from records.fingerprints import fingerprint_of
from records.machines import Hardware, Machine
from records.outcomes import MetricDefinition
from records.runs import Run, RunPreset
from runner.journal import Journal
from runner.preset import MachinePreset
from support.builders.exports import file_of
from support.builders.journals import a_header, a_plan, an_outcome
from support.builders.run_records import a_run
from support.sqlite_files import sqlite_with_tables
from workflows.recorder import Recorder
from workflows.transfer.import_runs import ImportSummary, import_path

NOW = datetime(2026, 6, 1, tzinfo=UTC)
QUIET = MachinePreset("quiet", {"KMP_BLOCKTIME": "1"}, cpus=(1,), housekeeping=(0,))
FACTS: dict[str, Any] = {
    "python": "3.12.3",
    "implementation": "CPython",
    "torch": "2.13.0+cpu",
    "torch_git": "0" * 40,
    "cuda": None,
    "cudnn": None,
    "hip": None,
    "debug": False,
    "packages": ["torch==2.13.0"],
    "build_digest": "1" * 16,
}
ENVIRONMENT = fingerprint_of(FACTS)
OWN = {name: MetricDefinition(name, each.title, each.unit, each.better) for name, each in METRICS.items()}


def measured_header(run: str = "run-1") -> Any:
    """A run as this machine plans it, with fingerprints that follow from their contents."""
    plan = tuple(replace(each, environment=ENVIRONMENT) for each in a_plan(1)[::2])
    facts = {**FACTS, "fingerprint": ENVIRONMENT}
    return a_header(
        run,
        plan,
        environments=({"name": "default", "python": "/p", "fingerprint": ENVIRONMENT, "facts": facts},),
        preset={"name": QUIET.name, "fingerprint": QUIET.fingerprint, "settings": QUIET.settings},
    )


def recorded(folder: Path, url: str, header: Any) -> list[str]:
    """Measure a run of that plan to its end; what the user is told meanwhile."""
    notes: list[str] = []
    begun = Journal(folder / "runs" / header.run)
    begun.header(header.to_body())
    recorder = Recorder(begun, header, lambda: open_database(url), notes.append)
    recorder.begin()
    for planned in header.replicates:
        recorder.outcome(an_outcome(planned, NOW))
        recorder.between_sessions()
    stored = recorder.end("complete")
    return [*notes, *([] if stored else ["not stored"])]


def exported(path: Path, *runs: ImportedRun) -> Path:
    """Own-format files have right checksums whoever writes them."""
    path.write_bytes(file_of(*runs, definitions=OWN))
    return path


def read(path: Path, database: Database) -> ImportSummary:
    return import_path(path, None, database, lambda stored: None)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return sqlite_with_tables(tmp_path / "database" / "pyrometer.db")


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    with open_database(url) as opened:
        yield opened


def squatters() -> dict[str, Run]:
    """Runs of a file that bear fingerprints of this machine over contents of their own."""
    evil = a_run("evil")
    machine = measured_header().run_record("running", None).machine
    return {
        "preset": replace(evil, preset=RunPreset(QUIET.fingerprint, "quiet", {"evil": True})),
        "environment": replace(
            evil, environments=(Environment(ENVIRONMENT, "default", "9.9.9", "3.12.3", {"torch": "9.9.9"}),)
        ),
        "machine": replace(
            evil,
            machine=Machine(
                machine.fingerprint, "evil", Hardware(machine.hardware.fingerprint, "evil hardware", {})
            ),
        ),
    }


@pytest.mark.parametrize("what", squatters())
def test_a_fingerprint_that_a_file_took_before_is_measured_and_stored_all_the_same(
    tmp_path: Path, url: str, database: Database, what: str
) -> None:
    evil = squatters()[what]
    assert read(exported(tmp_path / "evil.jsonl", ImportedRun(evil, (), ())), database).new.runs == 1
    header = measured_header()
    assert recorded(tmp_path, url, header) == []
    mine = queries.run_record(database, "run-1")
    assert mine and (mine.preset.settings, mine.state) == (QUIET.settings, "complete")
    assert [each.torch_version for each in mine.environments][:1] == ["2.13.0+cpu"]
    assert (mine.machine.name, mine.machine.hardware.label) == ("bench-1", "Xeon 6430, 2 cores")
    assert len(queries.outcomes_of_run(database, "run-1")) == len(header.replicates)


@pytest.mark.parametrize("what", squatters())
def test_a_file_takes_nothing_from_what_is_stored(
    tmp_path: Path, url: str, database: Database, what: str
) -> None:
    recorded(tmp_path, url, measured_header())
    before = queries.run_record(database, "run-1")
    read(exported(tmp_path / "evil.jsonl", ImportedRun(squatters()[what], (), ())), database)
    assert queries.run_record(database, "run-1") == before


def test_a_contradiction_that_no_content_settles_stops_no_measurement(
    tmp_path: Path, url: str, database: Database
) -> None:
    """Of an environment of an older program nothing proves its fingerprint."""
    header = measured_header()
    old = replace(header, environments=({**header.environments[0], "fingerprint": "old"},))
    plan = tuple((case, "old", replicate) for case, _, replicate in header.planned)
    old = replace(old, planned=plan)
    evil = replace(a_run("evil"), environments=(Environment("old", "default", "9.9.9", "3.9", {}),))
    read(exported(tmp_path / "evil.jsonl", ImportedRun(evil, (), ())), database)
    note, *_, last = recorded(tmp_path, url, old)
    assert "environment old is stored with another torch version" in note
    assert "`pyrometer db forget evil`" in note and "is in the journal" in note and last == "not stored"
    assert forget_run(database, "evil")
    store_again = Recorder(Journal(tmp_path / "runs" / "run-1"), old, lambda: open_database(url), [].append)
    assert store_again.end("complete")
    assert queries.run_record(database, "run-1")


def test_a_preset_under_another_name_is_the_same_preset(tmp_path: Path, url: str, database: Database) -> None:
    recorded(tmp_path, url, measured_header())
    renamed = replace(QUIET, name="mine")
    header = measured_header("run-2")
    preset = {"name": "mine", "fingerprint": renamed.fingerprint, "settings": renamed.settings}
    assert recorded(tmp_path, url, replace(header, preset=preset)) == []
    found = queries.run_record(database, "run-2")
    assert found and found.preset.fingerprint == QUIET.fingerprint
