"""Records the outcomes of a run: first in the journal, then in the database, which may be unavailable."""

import os
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from db.connection.engine import Database
from db.errors import DatabaseError
from records.kinds import RunState
from records.outcomes import Outcome
from runner import journal
from runner.errors import JournalError
from runner.journal import Journal

from .database_upkeep import FOR_EVER, Retention, prune
from .ingest import JournalPart, Position, mark_stored
from .run_header import Header

#: Opens the database; raises DatabaseError while it is unavailable.
OpenDatabase = Callable[[], Database]

#: The shortest interval between two attempts to open an unavailable database, which may take seconds to fail.
_RETRY_SECONDS = 30.0


class Recorder:
    """Journal and database of one run; `note` receives sentences for users.

    At the end raw rows of old runs are deleted by `retention`.
    """

    def __init__(
        self,
        journal: Journal,
        header: Header,
        open_database: OpenDatabase,
        note: Callable[[str], None],
        retention: Retention = FOR_EVER,
    ) -> None:
        self._journal = journal
        self._header = header
        self._open = open_database
        self._note = note
        self._retention = retention
        self._database: Database | None = None
        self._position = Position()
        self._failure = ""
        self._retry_at = 0.0
        self._full = False

    def begin(self) -> None:
        """Store the run as running, with the results of its earlier parts."""
        self._store()

    def outcome(self, outcome: Outcome) -> None:
        """Write an outcome through to the disk."""
        self._written(self._journal.outcome(outcome))

    def canary(self, outcome: Outcome) -> None:
        """Write an outcome of the canary through to the disk."""
        self._written(self._journal.canary(outcome))

    def _written(self, written: bool) -> None:
        if not written and not self._full:
            self._note("the disk with the journal is full: outcomes wait in memory until there is room")
        if written and self._full:
            self._note("there is room again: the journal is complete")
        self._full = not written

    def between_sessions(self) -> None:
        """Store what is new, while nothing is being timed."""
        if time.monotonic() >= self._retry_at:
            self._store()

    def end(self, state: RunState) -> bool:
        """Write the end, store everything; returns False if the next command has to store the rest."""
        self._journal.ended({"at": datetime.now(UTC).isoformat(), "state": state})
        if note := self.abandon():
            self._note(note)
        try:
            self._store_pieces(ended=True)
            # The mark of a journal that lacks stored lines must not count them.
            outcomes = 0 if self._journal.pending_lines else len(self._position.outcomes)
            size = self._journal.path.stat().st_size
            mark_stored(self._journal.path, size, outcomes, self._position.set_aside)
        except (DatabaseError, JournalError) as error:
            self._report_failure(error)
            return False
        self._prune(self._open_database())
        self._open_database().close()
        return True

    def abandon(self) -> str:
        """Close the journal and save unwritten lines elsewhere; returns a note about them, if any."""
        self._journal.close()
        many = self._journal.pending_lines
        return f"{many} lines did not fit on the disk: {self._rescue()}" if many else ""

    def _prune(self, database: Database) -> None:
        try:
            for sentence in prune(database, self._retention):
                self._note(f"deleted {sentence}")
        except DatabaseError as error:
            self._note(f"{error} Old telemetry or samples are still there; the next run deletes them.")

    def _store(self) -> None:
        """Ingest the journal from where it was ingested last."""
        try:
            self._store_pieces(ended=False)
        except (DatabaseError, JournalError) as error:
            # Also if the database contradicts the run, which is measured to its end anyway.
            self._report_failure(error)
            return
        if self._failure:
            self._note("the database is back and holds everything")
        self._failure = ""

    def _store_pieces(self, *, ended: bool) -> None:
        database, path = self._open_database(), self._journal.path
        for piece in journal.read_pieces(path, self._position.size):
            waiting = self._journal.unwritten() if piece.last else b""
            read = JournalPart.after(self._position, path, piece, waiting, running=not (ended and piece.last))
            # Its lines are released while it is stored, and its samples while the next one is read.
            del piece
            read.store(database)
            self._position = read.position
            del read

    def _open_database(self) -> Database:
        if self._database is None:
            self._database = self._open()
        return self._database

    def _report_failure(self, error: DatabaseError | JournalError) -> None:
        if str(error) != self._failure:
            where = "The rest" if self._journal.pending_lines else "Everything"
            self._note(
                f"{str(error).removesuffix('.')}. {where} is in the journal; the next command stores it."
            )
        self._failure = str(error)
        self._retry_at = time.monotonic() + _RETRY_SECONDS
        # Opened again next time: it may be another database then, without this run.
        self._position = Position()
        if self._database is not None:
            self._database.close()
            self._database = None

    def _rescue(self) -> str:
        """Save the unwritten lines elsewhere; returns a sentence about the place or the loss."""
        target = Path(tempfile.gettempdir()) / f"pyrometer-{self._header.run}.jsonl"
        # Any user may have put a link or a file of this name there.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(target, flags, 0o600), "wb") as file:
                file.write(self._journal.unwritten())
        except FileExistsError:
            with tempfile.NamedTemporaryFile(prefix=f"{target.stem}-", suffix=".jsonl", delete=False) as file:
                file.write(self._journal.unwritten())
            target = Path(file.name)
        except OSError as error:
            return f"they could not be saved in {target} either ({error.strerror})"
        return f"they are saved in {target}; append them to {self._journal.path}"
