"""To whom a workflow reports what it does: it prints nothing itself."""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from records.outcomes import Outcome, Planned

if TYPE_CHECKING:
    from .measure import RunResult
    from .run_header import Header


class Watcher(Protocol):
    """Receives the events of one run while it is measured."""

    def began(self, header: "Header", todo: tuple[Planned, ...], seconds: float) -> None:
        """The run starts; `seconds` is the estimate."""
        ...

    def entered(self, planned: Planned, phase: str, seconds_left: float) -> None:
        """A contender entered a phase."""
        ...

    def measured(self, outcome: Outcome) -> None:
        """An outcome is known and in the journal."""
        ...

    def spared(self, case: str, replicates: int, reason: str) -> None:
        """So many planned replicates of a case are not needed."""
        ...

    def note(self, sentence: str) -> None:
        """Something people should know."""
        ...

    def finished(self, result: "RunResult") -> None:
        """The run is over."""
        ...


class Reporter(Protocol):
    """Receives what a workflow does outside of measuring, a sentence at a time; from several threads."""

    def note(self, sentence: str) -> None:
        """Something people should know, which changes nothing."""
        ...

    def progress(self, sentence: str) -> None:
        """A step of something that takes long."""
        ...

    def failed(self, sentence: str) -> None:
        """A failure beside the one that is raised."""
        ...

    def waiting(self, sentence: str) -> None:
        """Nothing happens until something else ends."""
        ...

    def watching(self) -> AbstractContextManager[Watcher]:
        """The watcher of a run that is about to be measured."""
        ...
