"""`pyrometer telemetry ...`: what the GPUs say about themselves."""

from pathlib import Path
from typing import Annotated

import typer

from runner.telemetry.recording import MOST_HZ, NothingToRecord, record
from workflows.errors import UsageError

from ..context import in_one_sentence, say

app = typer.Typer(help="What the GPUs say about themselves.", no_args_is_help=True)


@app.callback()
def telemetry() -> None:
    """What the GPUs say about themselves."""


@app.command("record")
def record_trace(
    file: Annotated[Path, typer.Argument(help="where the trace goes; must not exist yet")],
    seconds: Annotated[float, typer.Option(min=1, help="how long")] = 10.0,
    hz: Annotated[float, typer.Option(min=0.1, max=MOST_HZ, help="readings a second")] = 5.0,
) -> None:
    """Record NVML's readings for some seconds, for replay by a test double of NVML (tests/support/fakes).

    Start the work to be seen first. The trace names no machine, device or process. Ctrl-C ends it early.
    """
    with in_one_sentence():
        try:
            lines = _recorded(file, seconds, hz)
        except NothingToRecord as error:
            raise UsageError(f"there is nothing to record: {error}") from None
        except FileExistsError:
            raise UsageError(f"{file} exists already; a trace is never written over something") from None
        say(f"{lines} lines in {file}")


def _recorded(file: Path, seconds: float, hz: float) -> int:
    """Record into a new file; answers how many lines it holds."""
    lines = 0
    with file.open("x") as out:

        def write(line: str) -> None:
            nonlocal lines
            out.write(line)
            lines += 1

        try:
            record(seconds, hz, write)
        except KeyboardInterrupt:
            say("stopped early")
        except NothingToRecord:
            file.unlink()
            raise
    return lines
