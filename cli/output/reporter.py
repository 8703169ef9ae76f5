"""The reporters of workflows: sentences on stderr for people, and events on stdout for programs."""

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from common.text import printable_lines
from records.kinds import RunState

from .lossy_text import LossyText

if TYPE_CHECKING:
    from rich.console import Console

    from workflows.app_context import Watcher
    from workflows.measure import RunResult
    from workflows.run_header import Header

    from .progress import JsonWatcher


def say(sentence: str) -> None:
    """A line for users on stderr, because programs may read stdout.

    Control characters are removed, because the text may come from a file.
    """
    sys.stderr.write(printable_lines(sentence) + "\n")
    sys.stderr.flush()


class TerminalReporter:
    """Lines for users; the progress of a run goes to stdout."""

    def note(self, sentence: str) -> None:
        """Print a note."""
        say(f"note: {sentence}")

    def progress(self, sentence: str) -> None:
        """Print a line unchanged."""
        say(sentence)

    def report_error(self, sentence: str) -> None:
        """Print an error in the format of a command's final error."""
        say(f"pyrometer: {sentence}")

    def report_wait(self, sentence: str) -> None:
        """Print that the command waits, and how to end that."""
        say(f"{sentence}: waiting until it ends (Ctrl-C stops waiting)")

    def open_watcher(self) -> "AbstractContextManager[Watcher]":
        """A live display on a terminal, plain lines otherwise."""
        # Imported here, so that only commands that measure wait for the import.
        from .console import watching_console
        from .progress import choose_watcher

        return choose_watcher(watching_console())


class JsonReporter(TerminalReporter):
    """The same lines, and on stdout one JSON object per event."""

    def report_wait(self, sentence: str) -> None:
        """Print that the command waits, and an event."""
        super().report_wait(sentence)
        self._watcher().report_wait(f"{sentence}: waiting until it ends")

    def open_watcher(self) -> "AbstractContextManager[Watcher]":
        """Print events."""
        return nullcontext(self._watcher())

    @staticmethod
    def _watcher() -> "JsonWatcher":
        from .console import watching_console
        from .progress import JsonWatcher

        return JsonWatcher(watching_console())


def end_output(console: "Console", header: "Header", result: "RunResult", *, as_json: bool = False) -> None:
    """Print what the output of a run lacks: the command that resumes it (JSON), and output lost to a full
    disk.
    """
    from workflows.run_locally import resume_command

    if as_json and result.state != RunState.COMPLETE:
        say(resume_command(header))
    if isinstance(console.file, LossyText) and console.file.lost:
        say(
            "note: the disk with the output was full and part of the output is lost; "
            f"pyrometer report {header.run} prints the report again"
        )
