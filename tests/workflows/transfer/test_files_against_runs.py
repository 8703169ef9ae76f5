"""What a file from outside cannot do to what was measured here: block it, change it, take its name."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from analysis.metrics import METRICS
from db.admin.check import STORE_AGAIN
from db.admin.delete_run import forget_run
from db.connection.engine import Database, open_database
from db.runs import queries, store
from db.schema import core_tables as tables
from interchange.runs import ImportedRun
from records.environments import Environment
from records.fingerprints import fingerprint_of
from records.kinds import EnvironmentKind, RunKind, RunSource
from records.machines import Hardware, Machine
from records.outcomes import Measurement, MetricDefinition, Outcome
from records.runs import Run, RunPreset
from runner.journal import Journal
from runner.preset import MachinePreset
from support.builders.exports import file_of
from support.builders.journals import a_header, a_plan, an_outcome
from support.builders.run_records import a_machine, a_run, measurements_for
from workflows.database_upkeep import check, journal_check, repair
from workflows.recorder import Recorder
from workflows.transfer.import_runs import Amount, ImportSummary, import_path

pytestmark = pytest.mark.slow

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
    """Any program can write files of our format with right checksums."""
    path.write_bytes(file_of(*runs, definitions=OWN))
    return path


def read(path: Path, database: Database) -> ImportSummary:
    return import_path(path, None, database, lambda stored: None)


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


def described_otherwise() -> dict[str, Run]:
    """Runs of a file with what fingerprints of this machine stand for, and other descriptions of it."""
    own = machine_with_facts(measured_header()).run_record("running", None)
    evil = a_run("evil", machine=a_machine("elsewhere"))
    measured, *_ = own.environments
    environments = {
        "kind": replace(measured, kind=EnvironmentKind.CANARY),
        "name of the environment": replace(measured, name="--evil"),
        "interpreter": replace(measured, facts={**measured.facts, "executable": "/bin/evil"}),
    }
    hardware = replace(own.machine.hardware, facts={"gpus": ["NVIDIA H100"]})
    return {
        **{name: replace(evil, environments=(each,)) for name, each in environments.items()},
        "name of the preset": replace(evil, preset=replace(own.preset, name="evil")),
        "hardware": replace(evil, machine=replace(own.machine, hardware=hardware)),
    }


def machine_with_facts(header: Any) -> Any:
    return replace(header, machine={**header.machine, "hardware": {"gpus": []}})


@pytest.mark.parametrize("what", described_otherwise())
def test_descriptions_are_those_of_our_own_run_whatever_a_file_said_before(
    tmp_path: Path, url: str, database: Database, what: str
) -> None:
    """A confirmation starts the interpreter of an environment, and asks for a preset by its name."""
    header = machine_with_facts(measured_header())
    clean = f"sqlite:///{tmp_path}/clean.db"
    assert recorded(tmp_path / "clean", clean, header) == []
    read(exported(tmp_path / "evil.jsonl", ImportedRun(described_otherwise()[what], (), ())), database)
    assert recorded(tmp_path, url, header) == []
    read(exported(tmp_path / "later.jsonl", ImportedRun(described_otherwise()[what], (), ())), database)
    with open_database(clean) as other:
        expected, found = (queries.run_record(each, "run-1") for each in (other, database))
    assert expected and found
    assert found.environments == expected.environments
    assert (found.preset, found.machine) == (expected.preset, expected.machine)


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


def complete(folder: Path, url: str) -> tuple[Run, tuple[Outcome, ...], list[Measurement]]:
    """A complete run of three outcomes that was measured here."""
    recorded(folder, url, measured_header())
    with open_database(url) as database:
        run = queries.run_record(database, "run-1")
        assert run
        return run, tuple(queries.outcomes_of_run(database, "run-1")), numbers_of(database)


def numbers_of(database: Database) -> list[Measurement]:
    return queries.measurements_of_run(database, "run-1")


def faster(outcome: Outcome, count: int) -> list[Outcome]:
    """Replicates that no plan has, ten times as fast."""
    metrics = {name: value / 10 for name, value in outcome.metrics.items()}
    return [replace(outcome, replicate=1000 + number, metrics=metrics) for number in range(count)]


def unchanged(url: str, before: object) -> None:
    with open_database(url) as database:
        found = queries.run_record(database, "run-1")
        assert (found, tuple(queries.outcomes_of_run(database, "run-1")), numbers_of(database)) == before


def test_outcomes_beyond_the_plan_change_no_number(tmp_path: Path, url: str, database: Database) -> None:
    before = run, outcomes, _ = complete(tmp_path, url)
    evil = ImportedRun(run, tuple(faster(outcomes[0], 50)), ())
    arrived = read(exported(tmp_path / "evil.jsonl", evil), database)
    unchanged(url, before)
    assert (arrived.new, arrived.changed) == (Amount(), ())
    assert "the run is complete without 50 outcomes of the file" in arrived.set_aside[0].sentence
    assert [problem for each in check(database, tmp_path) for problem in each.problems] == []


@pytest.mark.parametrize("planned", [False, True], ids=["beyond the plan", "with a plan of its own"])
def test_a_journal_adds_nothing_to_a_complete_run(
    tmp_path: Path, url: str, database: Database, planned: bool
) -> None:
    before = _, outcomes, _ = complete(tmp_path, url)
    header = measured_header()
    more = faster(outcomes[0], 120)
    if planned:
        plan = (*header.planned, *((each.case, each.environment, each.replicate) for each in more))
        header = replace(header, planned=plan)
    with Journal(tmp_path / "evil") as evil:
        evil.header(replace(header, started_at=before[0].started_at.isoformat()).to_body())
        for each in more:
            evil.outcome(each)
    arrived = read(evil.path, database)
    unchanged(url, before)
    assert arrived.new == Amount() and arrived.set_aside


OTHERWISE: dict[str, Callable[[Run, Outcome], tuple[Run, Outcome]]] = {
    "facts": lambda run, one: (replace(run, facts={**run.facts, "extra": 1}), one),
    "kind": lambda run, one: (replace(run, kind=RunKind.UPGRADE), one),
    "command": lambda run, one: (replace(run, command="pyrometer run; evil"), one),
    "planned": lambda run, one: (replace(run, planned=99), one),
    "facts of an outcome": lambda run, one: (run, replace(one, facts={**one.facts, "extra": 1})),
}


@pytest.mark.parametrize("what", [*OTHERWISE, ""])
def test_what_a_file_says_otherwise_of_a_complete_run_is_set_aside(
    tmp_path: Path, url: str, database: Database, what: str
) -> None:
    before = run, outcomes, numbers = complete(tmp_path, url)
    said, first = OTHERWISE[what](run, outcomes[0]) if what else (run, outcomes[0])
    evil = ImportedRun(said, (first, *outcomes[1:]), tuple(numbers))
    arrived = read(exported(tmp_path / "evil.jsonl", evil), database)
    unchanged(url, before)
    assert arrived.new == Amount()
    assert [what.partition(" ")[0] in each.sentence for each in arrived.set_aside] == [True] * bool(what)


@pytest.mark.parametrize("source", ["imported", "submitted"])
def test_a_file_cannot_say_that_a_run_of_ours_is_foreign(
    tmp_path: Path, url: str, database: Database, source: str
) -> None:
    before = run, outcomes, _ = complete(tmp_path, url)
    foreign = replace(run, source=RunSource(source), source_format="tool")
    more = replace(outcomes[0], metrics={**outcomes[0].metrics, "rss_peak": 1.0})
    evil = ImportedRun(foreign, (more, *faster(outcomes[0], 5)), tuple(measurements_for([more])))
    (problem,) = read(exported(tmp_path / "evil.jsonl", evil), database).set_aside
    unchanged(url, before)
    assert "is stored with another source" in problem.sentence


def test_a_new_run_has_no_more_outcomes_than_its_plan(tmp_path: Path, url: str, database: Database) -> None:
    run, outcomes, _ = complete(tmp_path, url)
    other = replace(run, id="other")
    arrived = read(
        exported(tmp_path / "a.jsonl", ImportedRun(other, (*outcomes, *faster(outcomes[0], 9)), ())), database
    )
    assert arrived.new == Amount(1, 0, 0)
    assert "the run planned 3 outcomes and has 0 without 12 outcomes" in arrived.set_aside[0].sentence
    found = queries.run_record(database, "other")
    assert found and found.state == "interrupted", "for it has no outcome"
    assert [problem for each in check(database, tmp_path) for problem in each.problems] == []


def test_measurements_follow_from_outcomes_and_not_from_the_file(
    tmp_path: Path, url: str, database: Database
) -> None:
    run, outcomes, numbers = complete(tmp_path, url)
    false = [replace(each, point=each.point / 1000, smallest=0.0) for each in numbers]
    other = ImportedRun(replace(run, id="other"), outcomes, tuple(false))
    arrived = read(exported(tmp_path / "a.jsonl", other), database)
    assert arrived.new == Amount(1, 3, len(numbers)) and len(arrived.set_aside) == len(numbers)
    assert queries.measurements_of_run(database, "other") == numbers
    assert [problem for each in check(database, tmp_path) for problem in each.problems] == []


def test_a_run_with_a_journal_takes_nothing_from_a_file(tmp_path: Path, url: str, database: Database) -> None:
    """Also before it is stored, and while it is interrupted."""
    header = measured_header()
    run = header.run_record("interrupted", None)
    false = [replace(an_outcome(each, NOW), metrics={"latency": 0.1}) for each in header.replicates]
    evil = exported(tmp_path / "evil.jsonl", ImportedRun(run, tuple(false), ()))

    def imported() -> ImportSummary:
        return import_path(evil, None, database, lambda stored: None, with_journal={"run-1"})

    assert "has a journal in this data folder" in imported().set_aside[0].sentence
    assert queries.run_record(database, "run-1") is None
    store.save_run(database, run)
    arrived = imported()
    assert (
        arrived.new == Amount()
        and "is stored from its journal in this data folder, without 3 outcomes"
        in arrived.set_aside[0].sentence
    )
    assert queries.outcomes_of_run(database, "run-1") == []


def test_what_a_file_did_to_a_run_is_found_and_repaired_from_its_journal(
    tmp_path: Path, url: str, database: Database
) -> None:
    """As earlier versions let a file do it."""
    before = run, outcomes, _ = complete(tmp_path, url)
    evil = faster(outcomes[0], 50)
    store.save_outcomes(database, run.id, evil)
    store.save_measurements(database, run.id, measurements_for([*outcomes, *evil]))
    problems = [problem for each in check(database, tmp_path) for problem in each.problems]
    assert any("50 outcomes that its journal does not have" in each.sentence for each in problems)
    assert {each.mend for each in problems} == {STORE_AGAIN}
    (sentence,) = repair(database, tmp_path)
    assert sentence.startswith("run run-1 is stored again from its journal")
    unchanged(url, before)
    assert [problem for each in check(database, tmp_path) for problem in each.problems] == []
    assert list(repair(database, tmp_path)) == []


def test_a_metric_of_another_value_is_repaired(tmp_path: Path, url: str, database: Database) -> None:
    before = complete(tmp_path, url)
    table = tables.OutcomeRow
    with database.writing() as connection:
        connection.execute(update(table).values(metrics={"latency": 0.1}))
    (problem,) = journal_check(database, tmp_path, None, lambda *_: None).problems
    assert "3 outcomes with values that differ from its journal" in problem.sentence
    list(repair(database, tmp_path))
    unchanged(url, before)
