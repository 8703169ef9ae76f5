"""The context of a command, and errors as sentences and exit codes."""

import os
import shlex
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import typer

from common.text import os_reason
from configuration.data_dirs import resolve_places
from configuration.errors import ConfigurationError
from configuration.settings import load_settings
from db.errors import DatabaseError
from runner.errors import RunnerError
from workflows.app_context import AppContext
from workflows.errors import CANNOT_RESUME, CannotResume, JobError, RunInterrupted

from .output.reporter import JsonReporter, TerminalReporter, say

#: Exit codes: 0 success, 1 a measured case failed, 2 the command cannot run; 4 is used in addition to
#: CannotResume.
FAILED, USAGE, INTERRUPTED = 1, 2, 130

#: The options that only the scheduler passes: the name of a run to begin, and that it confirms findings.
_RUN_ID, _CONFIRMS = "--run-id", "--confirms"


def context(
    config: Path | None = None, *, reading: bool = False, noting: bool = True, as_json: bool = False
) -> AppContext:
    """Settings and places of the current folder; raises ConfigurationError.

    With `reading` the database need not be writable. Prints a note if data goes to another folder than the
    configured one, unless `noting` is false, for a command that reports it itself. With `as_json` waiting and
    measuring are reported as events on stdout.
    """
    settings = load_settings(config)
    places = resolve_places(settings, reading=reading)
    reporter = JsonReporter() if as_json else TerminalReporter()
    for note in places.notes if noting else ():
        reporter.note(note)
    return AppContext(settings, places, reporter, command_line())


def command_line() -> str:
    """The command line to repeat the command, without the options that only the scheduler passes."""
    left_out = (_CONFIRMS, f"{_RUN_ID}=")
    arguments = [each for each in sys.argv[1:] if not each.startswith(left_out)]
    if _RUN_ID in arguments:
        at = arguments.index(_RUN_ID)
        arguments = arguments[:at] + arguments[at + 2 :]
    return shlex.join(["pyrometer", *arguments]).encode(errors="replace").decode()


@contextmanager
def in_one_sentence() -> Generator[None]:
    """Turn errors that the user can correct into one sentence and exit code 2.

    A closed stdout interrupts the command.
    """
    try:
        yield
    except RunInterrupted as error:
        say(str(error))
        raise typer.Exit(INTERRUPTED) from None
    except (ConfigurationError, RunnerError, JobError, DatabaseError) as error:
        say(f"pyrometer: {error}")
        raise typer.Exit(USAGE) from None
    except BrokenPipeError:
        # Not 1, which would be read as a verdict.
        _close_output()
        raise typer.Exit(INTERRUPTED) from None
    except OSError as error:
        # A full disk or an unreadable folder is an error of the machine, not a defect.
        say(f"pyrometer: {os_reason(error)}")
        raise typer.Exit(USAGE) from None


def _close_output() -> None:
    """Discard the buffer of stdout: Python would try to write it at exit and print an error."""
    # A stream without a descriptor has no buffer to discard.
    with suppress(OSError), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


@contextmanager
def interrupted_beforehand() -> Generator[None]:
    """End with a sentence if a signal arrives before anything is measured; a run handles signals itself."""
    try:
        yield
    except KeyboardInterrupt:
        say("interrupted before anything was measured")
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def refused_for_good() -> Generator[None]:
    """End with a separate exit code if a run cannot be resumed."""
    try:
        yield
    except CannotResume as error:
        say(f"pyrometer: {error}")
        raise typer.Exit(CANNOT_RESUME) from None
