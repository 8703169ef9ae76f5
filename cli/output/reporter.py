"""The reporters of workflows: sentences on stderr for people, and events on stdout for programs."""

import io
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from rich.console import Console

    from workflows.app_context import Watcher
    from workflows.measure import RunResult
    from workflows.run_header import Header
    from workflows.run_locally import Conclude


class _Unbuffered(io.FileIO):
    """A descriptor without a buffer; it drops what does not fit on the disk and ends a torn line.

    A buffer of Python's keeps such bytes, and raises the error again with every later write and at exit.
    """

    lost = False
    _torn = False

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write what fits; raises BrokenPipeError if the reader is gone."""
        new = bytes(data)
        left = b"\n" + new if self._torn else new
        try:
            while left:
                left = left[super().write(left) or 0 :]
                self._torn = bool(left)
        except BrokenPipeError:
            raise
        except OSError:
            self.lost = True
        return len(new)


class LossyText(io.TextIOWrapper):
    """Text for messages about progress, of which a full disk may drop some; `lost` says that it did."""

    def __init__(self, stream: TextIO) -> None:
        self._raw = _Unbuffered(stream.fileno(), "wb", closefd=False)
        super().__init__(self._raw, stream.encoding, stream.errors, newline="", write_through=True)

    @property
    def lost(self) -> bool:
        """Whether a message was dropped."""
        return self._raw.lost


@cache
def lossy(stream: TextIO) -> TextIO:
    """The same stream as one `LossyText`; a stream without a descriptor as it is."""
    try:
        return LossyText(stream)
    except (OSError, ValueError):
        return stream


def say(sentence: str) -> None:
    """A line for people, on stderr: stdout may carry what a program reads."""
    sys.stderr.write(sentence + "\n")
    sys.stderr.flush()


class TerminalReporter:
    """Lines for people; a run is watched on stdout."""

    def note(self, sentence: str) -> None:
        """A remark."""
        say(f"note: {sentence}")

    def progress(self, sentence: str) -> None:
        """A line as it is."""
        say(sentence)

    def failed(self, sentence: str) -> None:
        """An error, in the form in which a command ends with one."""
        say(f"pyrometer: {sentence}")

    def waiting(self, sentence: str) -> None:
        """Waiting, and how to end it."""
        say(f"{sentence}: waiting for its end (Ctrl-C gives up)")

    def watching(self) -> "AbstractContextManager[Watcher]":
        """A live display on a terminal, plain lines elsewhere."""
        return self._watching(as_json=False)

    def _watching(self, *, as_json: bool) -> "AbstractContextManager[Watcher]":
        # Only what measures waits for the import of rich's displays, and of what measuring imports.
        from .console import watching_console
        from .progress import choose_watcher

        return choose_watcher(watching_console(), as_json)


class JsonReporter(TerminalReporter):
    """The same lines, and on stdout one JSON object per event."""

    def waiting(self, sentence: str) -> None:
        """Waiting, as a line and as an event."""
        super().waiting(sentence)
        from .progress import report_waiting

        report_waiting(f"{sentence}: waiting for its end")

    def watching(self) -> "AbstractContextManager[Watcher]":
        """Events."""
        return self._watching(as_json=True)


def concluding(show: "Callable[[Console, Header, RunResult], None]", *, as_json: bool) -> "Conclude":
    """Shows the end of a run on stdout, and says what the reader may miss of it."""
    from workflows.run_locally import go_on

    from .console import watching_console

    def concluded(header: "Header", result: "RunResult") -> None:
        console = watching_console()
        show(console, header, result)
        if as_json and result.state != "complete":
            say(go_on(header))
        if isinstance(console.file, LossyText) and console.file.lost:
            say(
                "note: the disk with the output was full and part of the output is lost; "
                f"pyrometer report {header.run} prints the report again"
            )

    return concluded
