"""The context of a workflow: settings, folders and a reporter; workflows print nothing themselves."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from configuration.data_dirs import DataDirs
from configuration.settings import Settings
from records.outcomes import Outcome, PlannedReplicate

if TYPE_CHECKING:
    from db.connection.engine import Database

    from .measure import RunResult
    from .run_header import Header


class Watcher(Protocol):
    """Receives the events of one run while it is measured."""

    def report_start(self, header: "Header", todo: tuple[PlannedReplicate, ...], seconds: float) -> None:
        """The run starts; `seconds` is the estimate."""
        ...

    def report_phase(self, planned: PlannedReplicate, phase: str, seconds_left: float) -> None:
        """A contender entered a phase."""
        ...

    def report_outcome(self, outcome: Outcome) -> None:
        """An outcome is known and in the journal."""
        ...

    def report_unneeded(self, case: str, replicates: int, reason: str) -> None:
        """Planned replicates of a case are not needed."""
        ...

    def note(self, sentence: str) -> None:
        """A note for users."""
        ...

    def report_end(self, result: "RunResult") -> None:
        """The run is over."""
        ...


class Reporter(Protocol):
    """Receives sentences about the steps of a workflow besides measuring; called from several threads."""

    def note(self, sentence: str) -> None:
        """A note for users without further effect."""
        ...

    def progress(self, sentence: str) -> None:
        """A step of a long operation."""
        ...

    def report_error(self, sentence: str) -> None:
        """An error in addition to the one that is raised."""
        ...

    def report_wait(self, sentence: str) -> None:
        """The workflow waits for the end of another process."""
        ...

    def open_watcher(self) -> AbstractContextManager[Watcher]:
        """The watcher of a run that will be measured."""
        ...


@dataclass(frozen=True, slots=True)
class AppContext:
    """Settings, places and reporter of one call; `command` is stored with the runs that it measures."""

    settings: Settings
    places: DataDirs
    reporter: Reporter
    command: str

    @property
    def runs(self) -> Path:
        """The folder that holds one folder per run."""
        return self.places.data_dir / "runs"

    @property
    def open_database(self) -> "Callable[[], Database]":
        """Opens the database; raises DatabaseError."""
        # SQLAlchemy takes a third of a second to import: workflows without a database should not wait for it.
        from db.connection.engine import open_database

        return partial(open_database, self.places.database_url)
