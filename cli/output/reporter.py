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
    """A line for people, on stderr: stdout may carry what a program reads.

    It steers no terminal, whatever text of a file it repeats.
    """
    sys.stderr.write(printable_lines(sentence) + "\n")
    sys.stderr.flush()


class TerminalReporter:
    """Lines for people; a run is watched on stdout."""

    def note(self, sentence: str) -> None:
        """A remark."""
        say(f"note: {sentence}")

    def progress(self, sentence: str) -> None:
        """A line as it is."""
        say(sentence)

    def report_error(self, sentence: str) -> None:
        """An error, in the form in which a command ends with one."""
        say(f"pyrometer: {sentence}")

    def report_wait(self, sentence: str) -> None:
        """Waiting, and how to end it."""
        say(f"{sentence}: waiting for its end (Ctrl-C gives up)")

    def open_watcher(self) -> "AbstractContextManager[Watcher]":
        """A live display on a terminal, plain lines elsewhere."""
        # Only what measures waits for the import of rich's displays, and of what measuring imports.
        from .console import watching_console
        from .progress import choose_watcher

        return choose_watcher(watching_console())


class JsonReporter(TerminalReporter):
    """The same lines, and on stdout one JSON object per event."""

    def report_wait(self, sentence: str) -> None:
        """Waiting, as a line and as an event."""
        super().report_wait(sentence)
        self._watcher().report_wait(f"{sentence}: waiting for its end")

    def open_watcher(self) -> "AbstractContextManager[Watcher]":
        """Events."""
        return nullcontext(self._watcher())

    @staticmethod
    def _watcher() -> "JsonWatcher":
        from .console import watching_console
        from .progress import JsonWatcher

        return JsonWatcher(watching_console())


def end_output(console: "Console", header: "Header", result: "RunResult", *, as_json: bool = False) -> None:
    """Report what the output of a run lacks: in JSON how it is resumed, and what a full disk lost."""
    from workflows.run_locally import resume_command

    if as_json and result.state != RunState.COMPLETE:
        say(resume_command(header))
    if isinstance(console.file, LossyText) and console.file.lost:
        say(
            "note: the disk with the output was full and part of the output is lost; "
            f"pyrometer report {header.run} prints the report again"
        )
