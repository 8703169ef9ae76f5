"""From journals of other machines to the database, and which files of a folder are one thing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from db.connection.engine import Database
from db.runs import queries
from interchange.errors import BadFile, SourcePlace
from interchange.runs import ImportProblem
from records.outcomes import Outcome, PlannedReplicate
from runner import journal
from support.builders.foreign_files import SAMPLES, written
from support.builders.journals import a_header, environment_body, machine_body
from support.builders.run_records import MLP, a_machine, an_environment
from workflows.transfer.import_runs import Amount, ImportSummary, files, import_path

NOTHING = Amount()


def read(path: Path, database: Database, name: str | None = None) -> ImportSummary:
    return import_path(path, name, database, lambda stored: None)


def a_journal(folder: Path, cut: int = 0) -> Path:
    """The journal of another machine's run of two replicates, in the run's folder; without its last bytes."""
    environment = an_environment()
    header = a_header(
        "20260901-020000-1f3a",
        [PlannedReplicate(MLP, environment.fingerprint, replicate) for replicate in range(2)],
        started_at="2026-09-01T02:00:00+00:00",
        machine=machine_body(a_machine("bench-2")),
        environments=(environment_body(environment),),
        canary=None,
    )
    with journal.Journal(folder / header.run) as written_to:
        written_to.header(header.to_body())
        for replicate in range(2):
            values = {"latency": 2.0 + replicate}
            written_to.outcome(Outcome(MLP, environment.fingerprint, replicate, "ok", metrics=values))
    path = folder / header.run / journal.FILE
    path.write_bytes(path.read_bytes()[: -cut or None])
    return path


@pytest.mark.parametrize("pick", [lambda path: path, lambda path: path.parent], ids=["journal", "folder"])
def test_a_journal_of_another_machine_goes_in_as_one_of_ours(
    tmp_path: Path, sqlite: Database, pick: Callable[[Path], Path]
) -> None:
    path = a_journal(tmp_path)
    arrived = read(pick(path), sqlite)
    assert arrived == ImportSummary("journal", Amount(1, 2, 1), Amount(1, 2, 1))
    assert read(pick(path), sqlite).new == NOTHING
    (summary,) = queries.recent_runs(sqlite)
    assert (summary.id, summary.machine, summary.state) == (path.parent.name, "bench-2", "complete")
    # How much of it is stored, and where, is for its own machine to remember.
    assert [each.name for each in path.parent.iterdir()] == [journal.FILE]


def test_a_torn_journal_goes_in_as_far_as_it_can_be_read(tmp_path: Path, sqlite: Database) -> None:
    path = a_journal(tmp_path, cut=20)
    arrived = read(path, sqlite)
    assert arrived.new == Amount(1, 1, 1)
    assert arrived.set_aside == (ImportProblem(SourcePlace(journal.FILE, 3), "torn or not a journal line"),)
    assert queries.recent_runs(sqlite)[0].state == "interrupted"
    # The measurement is that of both outcomes from now on.
    assert read(a_journal(tmp_path / "whole"), sqlite).new == Amount(0, 1, 1)
    assert queries.recent_runs(sqlite)[0].state == "complete"


def test_a_journal_without_a_header_is_refused_in_a_sentence(tmp_path: Path, sqlite: Database) -> None:
    path = a_journal(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'"run":"2026', b'"run":"2025'))
    with pytest.raises(BadFile, match=r"^journal\.jsonl: has no readable header$"):
        read(path, sqlite)
    with pytest.raises(BadFile, match=r"is not a journal\.jsonl or the folder of a run"):
        read(written(tmp_path, SAMPLES["asv"]), sqlite, name="journal")


def test_a_journal_that_is_being_written_is_left_alone(tmp_path: Path, sqlite: Database) -> None:
    path = a_journal(tmp_path)
    with journal.Journal(path.parent), pytest.raises(BadFile, match="a run is writing it"):
        read(path, sqlite)


def test_a_folder_is_read_file_by_file_and_what_is_one_thing_as_one(tmp_path: Path) -> None:
    written(tmp_path, SAMPLES["asv"])
    written(tmp_path / "more", SAMPLES["timm-csv"])
    run = a_journal(tmp_path / "runs").parent
    (tmp_path / "notes.txt").write_text("nothing to read here")
    (tmp_path / "loop").symlink_to(tmp_path)
    found = list(files(tmp_path))
    table = tmp_path / "more" / SAMPLES["timm-csv"][1]
    assert found == [table, tmp_path / "notes.txt", tmp_path / "results", run]
    assert list(files(table)) == [table]
