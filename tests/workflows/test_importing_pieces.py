"""A run that comes in pieces: reading one does not lock the database, and a partial run says so."""

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.decision.comparison import DECIDED
from db.connection.engine import Database, open_database
from db.errors import DatabaseUnavailable
from db.runs import queries, series_queries, store
from interchange.errors import BadFile, SourcePlace
from interchange.importers import pyrometer
from interchange.runs import ImportBatch, ImportedRun
from records.outcomes import Measurement, Outcome, Replicate
from records.runs import Run
from runner import journal
from support.builders.exports import file_of
from support.builders.journals import write_journal
from support.builders.run_records import (
    BERT,
    MLP,
    RESNET,
    a_machine,
    a_night,
    a_run,
    an_outcome,
    measurements_for,
)
from support.servers.databases import on_both
from workflows.database_upkeep import check
from workflows.ingest import measurements_of
from workflows.transfer.import_runs import Amount, ImportSummary, import_path, keep
from workflows.transfer.merge_runs import UNFINISHED

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PLACE = SourcePlace("runs.jsonl")
OURS, FOREIGN = "20260901-020000-1f3a", "20260901-020000-tool-0123abcd"


def a_large_run(id: str = OURS, cases: Sequence[str] = (MLP, BERT, RESNET)) -> ImportedRun:
    """Two processes of each case, by replicate: the numbers of a case follow from several pieces."""
    outcomes = [
        an_outcome(case, replicate=number, metrics={"latency": 2.0 + number}, blocks=((5, 7),))
        for number in range(2)
        for case in cases
    ]
    return ImportedRun(a_run(id, planned=len(outcomes)), tuple(outcomes), tuple(numbers_of(outcomes)))


def numbers_of(outcomes: Sequence[Outcome]) -> list[Measurement]:
    return measurements_of(Replicate(each.case, each.environment, each.metrics) for each in outcomes)


def pieces_of(whole: ImportedRun) -> list[ImportBatch]:
    """An outcome each, then all measurements, as they stand in a file."""
    parts = [ImportedRun(whole.run, (outcome,), ()) for outcome in whole.outcomes]
    return [ImportBatch("tool", (part,)) for part in (*parts, ImportedRun(whole.run, (), whole.measurements))]


def kept(database: Database | None, parts: Iterable[ImportBatch], *, dry_run: bool = False) -> ImportSummary:
    return keep("tool", parts, PLACE, database, lambda stored: None, dry_run=dry_run)


def facts_of(database: Database, run: str) -> list[object]:
    parts = (queries.run_record, queries.run_summary, queries.outcomes_of_run, queries.measurements_of_run)
    return [part(database, run) for part in parts]


def faults(database: Database, folder: Path) -> list[str]:
    return [problem.sentence for each in check(database, folder) for problem in each.problems]


@on_both
@pytest.mark.parametrize("id", [OURS, FOREIGN])
def test_others_write_while_the_next_piece_is_read(
    url: str, database: Database, tmp_path: Path, id: str
) -> None:
    whole = a_large_run(id)
    with open_database(url, timeout=0.2) as other:

        def read() -> Iterator[ImportBatch]:
            for number, piece in enumerate(pieces_of(whole)):
                run = a_run(f"other-{number}", started_at=a_night(number))
                store.save_run(other, run)
                store.save_measurements(other, run.id, measurements_for([an_outcome(RESNET)]))
                yield piece

        arrived = kept(database, read())
    assert arrived.held == arrived.new == Amount(1, 6, 3) and arrived.set_aside == ()
    assert queries.run_record(database, id) == whole.run
    with open_database(f"sqlite:///{tmp_path}/at-once.db") as at_once:
        kept(at_once, [ImportBatch("tool", (whole,))])
        assert facts_of(database, id) == facts_of(at_once, id)


def test_the_decision_comes_with_the_last_piece(sqlite: Database) -> None:
    whole = a_large_run()
    *pieces, last = pieces_of(whole)
    decided = replace(whole.run, facts={**whole.run.facts, DECIDED: {"decision": "go"}})
    end = ImportBatch(last.format, (replace(last.runs[0], run=decided),))
    kept(sqlite, [*pieces, end])
    assert queries.run_record(sqlite, OURS) == decided


@on_both
@pytest.mark.parametrize("id", [OURS, FOREIGN])
def test_what_is_half_in_says_so_and_the_next_import_ends_it(
    database: Database, tmp_path: Path, id: str
) -> None:
    whole = a_large_run(id)

    def killed() -> Iterator[ImportBatch]:
        yield from pieces_of(whole)[:4]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kept(database, killed())
    half = queries.run_record(database, id)
    assert half and (half.state, half.notes) == ("interrupted", (UNFINISHED,))
    # The fourth was read, and the next one was to be read before it would have been stored.
    stored = queries.outcomes_of_run(database, id)
    assert len(stored) == 3
    if id == OURS:
        assert {each.n for each in queries.measurements_of_run(database, id)} == {1}
        assert faults(database, tmp_path) == []
    dry = kept(database, pieces_of(whole), dry_run=True)
    assert queries.outcomes_of_run(database, id) == stored
    arrived = kept(database, pieces_of(whole))
    assert arrived == dry and (arrived.new, arrived.set_aside) == (Amount(0, 3, 3), ())
    assert queries.run_record(database, id) == whole.run
    assert {each.n for each in queries.measurements_of_run(database, id)} == {2}
    assert faults(database, tmp_path) == []
    assert kept(database, pieces_of(whole)).new == Amount()
    assert queries.run_record(database, id) == whole.run


#: Imports a file in pieces of two lines, and kills itself at the fourth commit.
KILLED = """
import os, signal, sys
from pathlib import Path
from sqlalchemy import Engine, event
from db.connection.engine import open_database
from interchange.importers import pyrometer
from workflows.transfer.import_runs import import_path

pyrometer._PART_LINES = 2
with open_database(sys.argv[1]) as database:
    commits = []

    def die(_):
        commits.append(1)
        if len(commits) == 4:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Engine, "commit", die)
    import_path(Path(sys.argv[2]), None, database, lambda stored: None)
"""


@on_both
def test_an_import_that_is_killed_is_ended_by_the_next(
    url: str, database: Database, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    path = tmp_path / "runs.jsonl"
    whole = a_large_run()
    path.write_bytes(file_of(whole))
    done = subprocess.run([sys.executable, "-c", KILLED, url, str(path)], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    record_property("kills", 1)
    half = queries.run_record(database, OURS)
    assert half and (half.state, half.notes) == ("interrupted", (UNFINISHED,))
    stored = len(queries.outcomes_of_run(database, OURS))
    assert 0 < stored < len(whole.outcomes)
    assert faults(database, tmp_path / "data") == []
    arrived = import_path(path, None, database, lambda stored: None)
    assert (arrived.new.runs, arrived.new.outcomes) == (0, len(whole.outcomes) - stored)
    assert queries.run_record(database, OURS) == whole.run
    assert set(queries.measurements_of_run(database, OURS)) == set(whole.measurements)


def test_a_file_that_tells_of_less_leaves_a_run_that_is_half_in_unfinished(sqlite: Database) -> None:
    whole = a_large_run()
    with pytest.raises(KeyboardInterrupt):
        kept(sqlite, interrupted(pieces_of(whole)[:3], KeyboardInterrupt()))
    earlier = ImportedRun(replace(whole.run, state="interrupted"), whole.outcomes[:1], ())
    kept(sqlite, [ImportBatch("tool", (earlier,))])
    run = queries.run_record(sqlite, OURS)
    assert run and run.state == "interrupted"
    kept(sqlite, pieces_of(whole))
    assert queries.run_record(sqlite, OURS) == whole.run


def interrupted(pieces: Sequence[ImportBatch], error: BaseException) -> Iterator[ImportBatch]:
    yield from pieces
    raise error


def test_of_a_run_that_was_stored_before_a_bad_piece_leaves_a_part_and_says_so(sqlite: Database) -> None:
    whole = a_large_run()
    begun = replace(whole.run, state="interrupted")
    first = ImportedRun(begun, whole.outcomes[:1], tuple(numbers_of(whole.outcomes[:1])))
    kept(sqlite, [ImportBatch("tool", (first,))])
    stranger = replace(whole.outcomes[5], environment="of-no-run")
    bad = [*pieces_of(whole)[:3], ImportBatch("tool", (ImportedRun(whole.run, (stranger,), ()),))]
    arrived = kept(sqlite, bad)
    (problem,) = arrived.set_aside
    left = f"run {OURS} is only partly stored, and importing the file again stores the rest"
    assert problem.sentence.startswith(f"{left}: environment of-no-run")
    assert len(queries.outcomes_of_run(sqlite, OURS)) == 3
    run = queries.run_record(sqlite, OURS)
    assert run and UNFINISHED in run.notes


@pytest.mark.parametrize("error", [BadFile(PLACE, "is torn"), DatabaseUnavailable("The disk is full.")])
def test_an_error_in_its_midst_says_how_the_run_is_left(sqlite: Database, error: Exception) -> None:
    whole = a_large_run()
    with pytest.raises(type(error)) as raised:
        kept(sqlite, interrupted(pieces_of(whole)[:4], error))
    if isinstance(error, BadFile):
        assert str(raised.value) == f"runs.jsonl: is torn; run {OURS} is left out"
        assert not queries.run_ids(sqlite) and not series_queries.series_keys(sqlite)
    else:
        assert "importing the file again stores the rest" in str(raised.value)
        run = queries.run_record(sqlite, OURS)
        assert run and run.notes == (UNFINISHED,)


@on_both
def test_two_imports_of_pieces_do_not_wait_for_each_other_in_a_circle(url: str, database: Database) -> None:
    """Each first contains a case that the other has later, and both are in the midst of their runs."""
    both = threading.Barrier(2, timeout=20)
    runs = [
        replace(a_large_run(cases=cases), run=a_run_on(day, planned=4))
        for day, cases in ((1, (MLP, BERT)), (2, (BERT, MLP)))
    ]
    failed: list[BaseException] = []

    def bring(whole: ImportedRun) -> None:
        def read() -> Iterator[ImportBatch]:
            for number, piece in enumerate(pieces_of(whole)):
                if number == 2:
                    both.wait()
                yield piece

        try:
            with open_database(url, timeout=20) as own_connection:
                kept(own_connection, read())
        except BaseException as error:
            failed.append(error)
            both.abort()

    threads = [threading.Thread(target=bring, args=(each,)) for each in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert queries.run_ids(database) == {each.run.id for each in runs}


def a_run_on(day: int, *, planned: int) -> Run:
    """A run of ours on a machine of its own."""
    return a_run(f"2026090{day}-020000-1f3a", planned=planned, machine=a_machine(f"bench-{day}"))


def test_a_file_in_pieces_comes_in_as_the_file_at_once(
    tmp_path: Path, sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(file_of(a_large_run(), replace(a_large_run(), run=a_run_on(2, planned=6))))
    dry = import_path(path, None, None, lambda stored: None)
    monkeypatch.setattr(pyrometer, "_PART_LINES", 2)
    assert len(list(pyrometer.parts(path))) > 6
    assert import_path(path, None, sqlite, lambda stored: None, dry_run=True) == dry
    assert not queries.run_ids(sqlite)
    assert import_path(path, None, sqlite, lambda stored: None) == dry
    assert faults(sqlite, tmp_path / "data") == []


@on_both
def test_a_journal_is_read_before_the_database_is_locked(
    url: str, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_journal(tmp_path / "data", "20260901-020000-1f3a")
    parse = journal.parse
    times = 0
    with open_database(url, timeout=0.2) as other:

        def and_write(file: Path, written: bytes, first_line: int = 1) -> journal.Contents:
            nonlocal times
            times += 1
            store.save_run(other, a_run(f"other-{times}", started_at=a_night(times)))
            return parse(file, written, first_line)

        monkeypatch.setattr(journal, "parse", and_write)
        arrived = import_path(path, None, database, lambda stored: None)
    assert times == 1 and arrived.new == arrived.held
