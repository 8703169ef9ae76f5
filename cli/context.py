"""What every command needs first: settings, places, and one sentence instead of a traceback."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from common.text import plural
from configuration.data_dirs import Places, resolve_places
from configuration.errors import ConfigurationError
from configuration.settings import Settings, load_settings
from db.errors import DatabaseError
from runner.errors import JournalError, RunnerError
from workflows.errors import CANNOT_RESUME, CannotResume, JobError

if TYPE_CHECKING:
    from db.connection.engine import Database

#: Exit codes: 0 all is well, 1 something measured is not, 2 the call cannot be carried out; 4 stands beside
#: CannotResume.
FAILED, USAGE, INTERRUPTED = 1, 2, 130


class UsageError(Exception):
    """The command line asks for something that does not exist; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Context:
    """Settings with the places that can really be written."""

    settings: Settings
    places: Places

    @property
    def runs(self) -> Path:
        """The folder that holds one folder per run."""
        return self.places.data_dir / "runs"

    @property
    def open_database(self) -> "Callable[[], Database]":
        """Opens the database; raises DatabaseError."""
        # SQLAlchemy takes a third of a second to import: no command waits for it that opens no database.
        from db.connection.engine import open_database

        return partial(open_database, self.places.database_url)


def context(config: Path | None = None, *, reading: bool = False, noting: bool = True) -> Context:
    """Settings and places of the current folder; raises ConfigurationError.

    With `reading` the database of a command that can do without writing need not be writable. Says where data
    goes that cannot go where it was to, but not with `noting` false: for a command that tells of it itself.
    """
    settings = load_settings(config)
    places = resolve_places(settings, reading=reading)
    for note in places.notes if noting else ():
        say(f"note: {note}")
    return Context(settings, places)


@contextmanager
def in_one_sentence() -> Generator[None]:
    """Turn the errors that are the user's to mend into one sentence and exit code 2."""
    try:
        yield
    except (UsageError, ConfigurationError, RunnerError, JobError, DatabaseError) as error:
        say(f"pyrometer: {error}")
        raise typer.Exit(USAGE) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        # A full disk, a folder that may not be read: the machine's trouble, not a bug.
        where = f": {error.filename}" if error.filename else ""
        say(f"pyrometer: {error.strerror or error}{where}")
        raise typer.Exit(USAGE) from None


@contextmanager
def refused_for_good() -> Generator[None]:
    """Have a run that cannot be gone on with end with an exit code of its own."""
    try:
        yield
    except CannotResume as error:
        say(f"pyrometer: {error}")
        raise typer.Exit(CANNOT_RESUME) from None


def store_pending(here: Context) -> None:
    """Store what earlier commands could only journal; says what it did, never fails the command."""
    from workflows.ingest import ingest_pending

    try:
        with here.open_database() as database:
            for done in ingest_pending(here.places.data_dir, database):
                if isinstance(done, JournalError):
                    say(f"note: {done}; it is left alone")
                    continue
                if done.new_outcomes:
                    say(f"note: stored {done.new_outcomes} outcomes of run {done.run} from its journal")
                for line in done.set_aside:
                    say(f"note: run {done.run}: journal {line}; set aside")
    except DatabaseError as error:
        say(f"note: {error}")


def store_beside_looking(here: Context) -> None:
    """`store_pending` where the database is this folder's; of another one only say what it lacks.

    A variable that names a database, and no data folder with it, points elsewhere: at a copy, at a backup.
    Who looks at one wants nothing stored in it.
    """
    from db.runs.replicates import stored_outcomes
    from workflows.ingest import pending

    named = here.settings.by_variable
    if "database_url" not in named or "data_dir" in named:
        store_pending(here)
        return
    try:
        with here.open_database() as database:
            left = len(pending(here.places.data_dir, stored_outcomes(database)))
    except DatabaseError as error:
        say(f"note: {error}")
        return
    if left:
        runs, them = plural(left, "run"), "it" if left == 1 else "them"
        say(
            f"note: {runs} of {here.runs} would be stored in the database that PYROMETER_DATABASE_URL names, "
            f"but not by looking at it: `pyrometer run` and `pyrometer report` store {them}"
        )


def say(sentence: str) -> None:
    """For people, beside whatever stdout carries for machines."""
    sys.stderr.write(sentence + "\n")
    sys.stderr.flush()
