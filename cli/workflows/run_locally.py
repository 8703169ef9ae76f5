"""Having a prepared run measured: alone on the machine, watched, and told at its end."""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager

import typer
from rich.console import Console

from runner.execution.machine_lock import exclusive, holder
from runner.profile import Profile
from workflows.measure import RunResult, measure
from workflows.retention import Kept
from workflows.run_header import Header

from ..context import INTERRUPTED, Context, say
from ..interrupts import Interrupts
from ..output.progress import choose_watcher, tell_waiting, watching_console
from ..streams import is_cut_short
from .plan_run import Prepared
from .resolve_environment import store_of

#: Tells the end of a run to whoever looked on: on the console, or as one more event for `--json`.
Conclude = Callable[[Console, Header, RunResult], None]


def measured(
    here: Context, prepared: Prepared, json: bool, interrupts: Interrupts, conclude: Conclude
) -> RunResult:
    """Have a run measured, with somebody looking on; a second Ctrl-C ends it at once."""
    header = prepared.header
    try:
        pythons = [target.python for target in header.targets.values()]
        with interrupts.deferred(), store_of(here).using(pythons), _saying_notes():
            return _watched(here, prepared, json, interrupts, conclude)
    except KeyboardInterrupt:
        # Asked twice. The workers die with the executor, or with this process.
        say(f"stopped at once; the journal keeps what is measured, {go_on(header)}")
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        say(f"nobody reads the output any more: stopped; {go_on(header)}")
        raise


def _watched(
    here: Context, prepared: Prepared, json: bool, interrupts: Interrupts, conclude: Conclude
) -> RunResult:
    header, profile = prepared.header, prepared.profile
    console = watching_console()
    # The watcher comes second: the thread of its display must stay off the measured CPUs as well.
    with housekeeping(profile), choose_watcher(console, json) as watcher:
        result = measure(
            header,
            profile,
            prepared.harness,
            here.runs / header.run,
            prepared.known,
            here.open_database,
            watcher,
            interrupts.asked,
            Kept(here.settings.telemetry_days, here.settings.samples_days),
            prepared.nodes,
        )
        watcher.finished(result)
    conclude(console, header, result)
    if json and result.state != "complete":
        say(go_on(header))
    if is_cut_short(console.file):
        say(
            "note: the disk with the output is full: its end is missing; "
            f"pyrometer report {header.run} tells it again"
        )
    return result


@contextmanager
def _saying_notes() -> Generator[None]:
    """Say what an error carries beside its own sentence: where a run has put what it could not keep."""
    try:
        yield
    except BaseException as error:
        for note in getattr(error, "__notes__", ()):
            say(f"note: {note}")
        raise


def go_on(header: Header) -> str:
    """What to type to go on with a run."""
    command = "run" if header.comparison is None else "upgrade"
    return f"go on with: pyrometer {command} --resume {header.run}"


@contextmanager
def alone(*, json: bool = False) -> Generator[None]:
    """No other run measures this machine meanwhile; who is waited for is said, with `json` as an event."""

    def waits() -> None:
        who = holder()
        sentence = f"another run measures this machine{f' ({who})' if who else ''}: waiting for its end"
        say(f"{sentence} (Ctrl-C gives up)")
        if json:
            tell_waiting(sentence)

    with exclusive(waits):
        yield


@contextmanager
def housekeeping(profile: Profile) -> Generator[None]:
    """Keep this process off the CPUs that are measured."""
    before = os.sched_getaffinity(0)
    if profile.housekeeping:
        os.sched_setaffinity(0, profile.housekeeping)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
