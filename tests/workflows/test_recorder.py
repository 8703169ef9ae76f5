"""What is said when neither journal nor database take what was measured: nothing that is not so."""

import resource
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from journals import a_header, a_plan, an_outcome

from db.connection.engine import Database
from db.errors import DatabaseError
from runner import journal
from runner.journal import Journal
from workflows.recorder import Recorder

NOW = datetime(2026, 6, 1, tzinfo=UTC)


@contextmanager
def no_room_beyond(size: int) -> Generator[None]:
    """Within the block no file of this process grows beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def away() -> Database:
    raise DatabaseError("the database is away.")


@pytest.mark.parametrize(("fits", "where"), [(True, "Everything"), (False, "The rest")])
def test_the_journal_is_said_to_hold_everything_only_where_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fits: bool, where: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    plan, notes = a_plan(), list[str]()
    begun = Journal(tmp_path / "run-1")
    header = a_header("run-1", plan)
    begun.header(header.to_body())
    recorder = Recorder(begun, header, away, notes.append)
    recorder.outcome(an_outcome(plan[0], NOW))
    with no_room_beyond(1 << 30 if fits else begun.path.stat().st_size + 20):
        recorder.outcome(an_outcome(plan[1], NOW))
        recorder.between_sessions()
    assert notes[-1] == f"the database is away. {where} is in the journal; the next command stores it."
    assert begun.waiting == (not fits)
    recorder.end("interrupted")
    assert len(journal.read(begun.path).outcomes) == 2
