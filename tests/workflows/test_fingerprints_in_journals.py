"""A run's journal carries the dispatch fingerprints taken with it to any database."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from db.connection.engine import Database
from db.runs.fingerprints import fingerprints_by_environment, fingerprints_under, save_fingerprints
from db.runs.queries import run_record
from records.dispatch import CaseFingerprint, FingerprintConditions, journal_body
from records.kinds import RunState
from records.outcomes import OutcomeStatus
from runner.journal import Journal
from support.builders.journals import ENVIRONMENTS, a_header, a_plan, write_journal
from support.builders.run_records import BERT, MLP, RESNET, a_case_fingerprint, a_night
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


def _as_stored(taken: CaseFingerprint, run: str = RUN) -> CaseFingerprint:
    """A fingerprint as a database has it that knows it from a journal alone."""
    return replace(taken, reason=f"from the journal of run {run}")


def test_another_database_gets_them_with_the_run_and_takes_its_own(
    tmp_path: Path, database: Database
) -> None:
    unsupported = CaseFingerprint(BERT, datetime.now(UTC), OutcomeStatus.UNSUPPORTED, "no such weather")
    taken = [a_case_fingerprint(MLP), a_case_fingerprint(RESNET, mkl={"SGEMM(T,N)": 3})]
    path = _journal(tmp_path, RUN, [*taken, unsupported])
    for new in (12, 0):
        done = ingest(path, database)
        assert (done.new_outcomes, done.set_aside) == (new, ())
        found = fingerprints_under(database, _conditions(), [MLP, RESNET, BERT])
        assert found == {each.case: _as_stored(each) for each in taken}
        assert not any(each.is_final for each in found.values())
    hardware, preset = _conditions().machine.hardware.fingerprint, _conditions().preset.fingerprint
    environment = ENVIRONMENTS[1].fingerprint
    shown = fingerprints_by_environment(database, [environment], hardware, preset, [MLP])
    assert shown == {(environment, MLP): taken[0].fingerprint}


def test_why_one_could_not_be_taken_comes_with_the_run(tmp_path: Path, database: Database) -> None:
    failed = CaseFingerprint(MLP, a_night(1), OutcomeStatus.TIMEOUT, "no end within 60 s")
    half = replace(a_case_fingerprint(RESNET), status=OutcomeStatus.CRASHED)
    ingest(_journal(tmp_path, RUN, [failed, half]), database)
    found = fingerprints_under(database, _conditions(), [MLP, RESNET])
    assert found == {MLP: failed, RESNET: _as_stored(half)}
    assert not any(each.is_final for each in found.values())


def test_an_older_journal_takes_nothing_back(tmp_path: Path, database: Database) -> None:
    older, newer = a_case_fingerprint(MLP, 1), a_case_fingerprint(MLP, 2, mkl={"SGEMM(T,N)": 3})
    before, after = _journal(tmp_path, f"{RUN}1", [older]), _journal(tmp_path, f"{RUN}2", [newer])
    for path in (before, after, before):
        ingest(path, database)
    assert fingerprints_under(database, _conditions(), [MLP]) == {MLP: _as_stored(newer, f"{RUN}2")}


def test_no_journal_replaces_what_was_taken(tmp_path: Path, database: Database) -> None:
    ours, newer = a_case_fingerprint(MLP, 1), a_case_fingerprint(MLP, 2, mkl={"SGEMM(T,N)": 3})
    failed = CaseFingerprint(BERT, a_night(1), OutcomeStatus.TIMEOUT, "no end within 60 s")
    save_fingerprints(database, _conditions(), [ours, failed])
    ingest(_journal(tmp_path, RUN, [newer, replace(newer, case=BERT)]), database)
    found = fingerprints_under(database, _conditions(), [MLP, BERT])
    assert found == {MLP: ours, BERT: _as_stored(replace(newer, case=BERT))} and ours.is_final


def test_an_import_does_not_say_what_a_machine_runs(tmp_path: Path, database: Database) -> None:
    path = _journal(tmp_path, RUN, [a_case_fingerprint(MLP)])
    assert import_path(path, None, database, lambda stored: None).new.runs == 1
    assert fingerprints_under(database, _conditions(), [MLP]) == {}


def test_one_that_does_not_fit_costs_nothing_else(tmp_path: Path, database: Database) -> None:
    path = _journal(tmp_path, RUN, [a_case_fingerprint(MLP)])
    fits = journal_body(_conditions(), a_case_fingerprint(RESNET))
    content = {"format": 1, "layouts": True, "missing": {}, "parts": {"code": 3}}
    unfit = [{"environment": "another"}, {"status": "well"}, {"device": 3}, {"fingerprint": content}]
    unfit.append({"taken_at": "2026-11-22T02:00:00"})
    with Journal(path.parent) as journal:
        for body in ({}, *(fits | each for each in unfit), fits):
            journal.fingerprint(body)
    done = ingest(path, database)
    assert done.new_outcomes == 12
    assert [line.split(": ")[0] for line in done.set_aside] == [
        "fingerprint of case None",
        *[f"fingerprint of case {RESNET!r}"] * len(unfit),
    ]
    assert {*fingerprints_under(database, _conditions(), [MLP, RESNET])} == {MLP, RESNET}
    stored = run_record(database, RUN)
    assert stored is not None
    assert sum("fingerprint of case" in note for note in stored.notes) == 1 + len(unfit)
