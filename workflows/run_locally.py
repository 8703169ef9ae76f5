"""Have a planned run measured: alone on the machine, watched, and concluded at its end."""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager

from common.interrupts import Interrupts
from runner.execution.machine_lock import exclusive, holder
from runner.profile import Profile

from .app_context import AppContext
from .errors import Interrupted
from .measure import RunResult, measure
from .planning.plan_run import Prepared
from .planning.resolve_environment import store_of
from .reporter import Reporter
from .retention import Kept
from .run_header import Header

#: Shows the end of a run, after its watcher has finished.
Conclude = Callable[[Header, RunResult], None]


def measured(app: AppContext, prepared: Prepared, interrupts: Interrupts, conclude: Conclude) -> RunResult:
    """Have a run measured and watched; raises Interrupted where a second signal ends it at once."""
    header = prepared.header
    try:
        pythons = [target.python for target in header.targets.values()]
        with interrupts.deferred(), store_of(app).using(pythons), _reporting_notes(app.reporter):
            result = _watched(app, prepared, interrupts)
            conclude(header, result)
            return result
    except KeyboardInterrupt:
        # The workers die with the executor, or with this process.
        raise Interrupted(f"stopped at once; the journal keeps what is measured, {go_on(header)}") from None
    except BrokenPipeError:
        app.reporter.progress(f"nobody reads the output any more: stopped; {go_on(header)}")
        raise


def _watched(app: AppContext, prepared: Prepared, interrupts: Interrupts) -> RunResult:
    header, profile = prepared.header, prepared.profile
    # The watcher comes second: the thread of its display must stay off the measured CPUs as well.
    with housekeeping(profile), app.reporter.watching() as watcher:
        result = measure(
            header,
            profile,
            prepared.harness,
            app.runs / header.run,
            prepared.known,
            app.open_database,
            watcher,
            interrupts.asked,
            Kept(app.settings.telemetry_days, app.settings.samples_days),
            prepared.nodes,
        )
        watcher.finished(result)
    return result


@contextmanager
def _reporting_notes(reporter: Reporter) -> Generator[None]:
    """Report the notes of an error that passes: where a run has put what it could not keep."""
    try:
        yield
    except BaseException as error:
        for note in getattr(error, "__notes__", ()):
            reporter.note(note)
        raise


def go_on(header: Header) -> str:
    """What to type to go on with a run."""
    command = "run" if header.comparison is None else "upgrade"
    return f"go on with: pyrometer {command} --resume {header.run}"


@contextmanager
def alone(reporter: Reporter) -> Generator[None]:
    """No other run measures this machine within the block; the reporter learns which one is waited for."""

    def waits() -> None:
        name = holder()
        reporter.waiting(f"another run measures this machine{f' ({name})' if name else ''}")

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
