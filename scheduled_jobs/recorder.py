"""Keeps what a run learns: first the journal, then the database, which may come and go."""

import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from db import store
from db.engine import Database
from db.errors import DatabaseError
from runner.journal import Journal
from runner.records import Outcome

from .header import Header
from .ingest import ingest, measurements, stored_outcome

#: Opens the database; raises DatabaseError while it cannot be had.
OpenDatabase = Callable[[], Database]


class Recorder:
    """Journal and database of one run; `note` is called with a sentence when something changes for people."""

    def __init__(
        self, journal: Journal, header: Header, open_database: OpenDatabase, note: Callable[[str], None]
    ) -> None:
        self._journal = journal
        self._header = header
        self._open = open_database
        self._note = note
        self._database: Database | None = None
        self._outcomes: list[Outcome] = []
        self._unstored: list[Outcome] = []
        self._troubled = ""
        self._full = False

    def begin(self, known: tuple[Outcome, ...]) -> None:
        """Make the run visible as running; `known` are the outcomes of earlier parts of the same run."""
        self._outcomes = list(known)
        self._unstored = list(known)
        self._store()

    def outcome(self, outcome: Outcome) -> None:
        """Write an outcome through to the disk."""
        written = self._journal.outcome(outcome)
        if not written and not self._full:
            self._note("the disk with the journal is full: outcomes wait in memory until there is room")
        if written and self._full:
            self._note("the journal has room again and holds everything")
        self._full = not written
        self._outcomes.append(outcome)
        self._unstored.append(outcome)

    def between_sessions(self) -> None:
        """Store what is new, while nothing is being timed."""
        self._store()

    def end(self, state: str) -> bool:
        """Write the last word, store everything; False if the database has to wait for the next command."""
        self._journal.ended({"at": datetime.now(UTC).isoformat(), "state": state})
        self._journal.close()
        if self._journal.waiting:
            self._note(f"{self._journal.waiting} lines did not fit on the disk: {self._rescue()}")
        try:
            database = self._database or self._open()
            ingest(self._journal.path, database)
        except DatabaseError as error:
            self._trouble(error)
            return False
        database.close()
        return True

    def _store(self) -> None:
        cases = {(outcome.case, outcome.environment) for outcome in self._unstored}
        concerned = [o for o in self._outcomes if (o.case, o.environment) in cases]
        try:
            if self._database is None:
                self._database = self._open()
            store.save_run(self._database, self._header.run_record("running", None))
            store.save_outcomes(self._database, self._header.run, [stored_outcome(o) for o in self._unstored])
            store.save_measurements(self._database, self._header.run, measurements(concerned))
        except DatabaseError as error:
            self._trouble(error)
            return
        if self._troubled:
            self._note("the database is back and holds everything")
        self._troubled = ""
        self._unstored = []

    def _trouble(self, error: DatabaseError) -> None:
        if str(error) != self._troubled:
            self._note(f"{error} Everything is in the journal; the next command stores it.")
        self._troubled = str(error)

    def _rescue(self) -> str:
        """Put the unwritten lines somewhere else; says where, or that they are lost."""
        target = Path(tempfile.gettempdir()) / f"pyrometer-{self._header.run}.jsonl"
        try:
            target.write_bytes(self._journal.unwritten())
        except OSError as error:
            return f"they could not be kept in {target} either ({error.strerror})"
        return f"they are kept in {target}; append them to {self._journal.path}"
