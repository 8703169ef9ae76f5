"""A run's journal carries the dispatch fingerprints taken with it to any database."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from db.connection.engine import Database
from db.runs.fingerprints import fingerprints_under
from db.runs.queries import run_record
from records.dispatch import CaseFingerprint, FingerprintConditions, journal_body
from records.kinds import RunState
from records.outcomes import OutcomeStatus
from runner import machine
from runner.journal import Journal
from support.builders.journals import ENVIRONMENTS, a_header, a_plan, write_journal
from support.builders.run_records import BERT, MLP, RESNET, a_case_fingerprint
from workflows.ingest import ingest
from workflows.transfer.import_runs import import_path

RUN = "20261122-000000-0000abcd"


def _conditions() -> FingerprintConditions:
    run = a_header(RUN, a_plan()).run_record(RunState.COMPLETE, None)
    return FingerprintConditions(ENVIRONMENTS[1], run.machine, run.preset, "harness-1f3a", "cpu")


def _journal(data_dir: Path, run: str, taken: Sequence[CaseFingerprint]) -> Path:
    """A run's journal to whose end fingerprints were written."""
    path = write_journal(data_dir, run)
    with Journal(path.parent) as journal:
        for each in taken:
            assert journal.fingerprint(journal_body(_conditions(), each))
    return path


def test_another_database_gets_them_with_the_run(tmp_path: Path, database: Database) -> None:
    failed = CaseFingerprint(BERT, datetime.now(UTC), OutcomeStatus.TIMEOUT, "no end within 60 s")
    taken = [a_case_fingerprint(MLP), a_case_fingerprint(RESNET, mkl={"SGEMM(T,N)": 3}), failed]
    path = _journal(tmp_path, RUN, taken)
    for new in (12, 0):
        done = ingest(path, database)
        assert (done.new_outcomes, done.set_aside) == (new, ())
        found = fingerprints_under(database, _conditions(), [MLP, RESNET, BERT])
        assert found == {each.case: each for each in taken}


def test_an_older_journal_takes_nothing_back(tmp_path: Path, database: Database) -> None:
    now = datetime.now(UTC)
    failed = CaseFingerprint(MLP, now - timedelta(days=1), OutcomeStatus.CRASHED, "killed by SIGILL")
    succeeded = CaseFingerprint(MLP, now, OutcomeStatus.OK, fingerprint=a_case_fingerprint().fingerprint)
    before, after = _journal(tmp_path, f"{RUN}1", [failed]), _journal(tmp_path, f"{RUN}2", [succeeded])
    for path in (before, after, before):
        ingest(path, database)
    assert fingerprints_under(database, _conditions(), [MLP]) == {MLP: succeeded}


@pytest.mark.parametrize("is_ours", [False, True])
def test_an_import_does_not_say_what_this_machine_runs(
    tmp_path: Path, database: Database, is_ours: bool
) -> None:
    header = a_header(RUN, a_plan())
    name = machine.describe([]).fingerprint if is_ours else "another"
    header = replace(header, machine={**header.machine, "fingerprint": name})
    run, taken = header.run_record(RunState.COMPLETE, None), a_case_fingerprint(MLP)
    conditions = FingerprintConditions(ENVIRONMENTS[1], run.machine, run.preset, "harness-1f3a", "cpu")
    with Journal(tmp_path / RUN) as journal:
        journal.header(header.to_body())
        assert journal.fingerprint(journal_body(conditions, taken))
    assert import_path(journal.path, None, database, lambda stored: None).new.runs == 1
    assert fingerprints_under(database, conditions, [MLP]) == ({} if is_ours else {MLP: taken})


def test_one_that_does_not_fit_costs_nothing_else(tmp_path: Path, database: Database) -> None:
    path = _journal(tmp_path, RUN, [a_case_fingerprint(MLP)])
    fits = journal_body(_conditions(), a_case_fingerprint(RESNET))
    with Journal(path.parent) as journal:
        for body in ({}, fits | {"environment": "another"}, fits | {"status": "well"}, fits):
            journal.fingerprint(body)
    done = ingest(path, database)
    assert done.new_outcomes == 12
    assert [line.split(": ")[0] for line in done.set_aside] == [
        "fingerprint of case None",
        *[f"fingerprint of case {RESNET!r}"] * 2,
    ]
    assert {*fingerprints_under(database, _conditions(), [MLP, RESNET])} == {MLP, RESNET}
    stored = run_record(database, RUN)
    assert stored is not None
    assert sum("fingerprint of case" in note for note in stored.notes) == 3
