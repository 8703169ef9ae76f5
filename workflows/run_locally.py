"""Have a run measured on this machine: alone, watched, and concluded at its end."""

import os
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress

from common.interrupts import Interrupts
from runner.execution import harness as harnesses
from runner.execution.machine_lock import exclusive, holder
from runner.profile import Profile

from .app_context import AppContext
from .errors import Interrupted, UsageError
from .ingest import store_pending
from .measure import RunResult, measure
from .planning.plan_run import Chosen, Prepared, find_run, prepare_again, resumable
from .planning.plan_upgrade import UpgradeRequest, pairs_plan, prepare_upgrade
from .planning.policies import check_judged, choose_policy
from .planning.resolve_environment import store_of, wanted
from .planning.select_cases import choose_profile, choose_suite, refuse_too_many
from .reporter import Reporter
from .retention import Kept
from .run_header import Header

#: Shows the end of a run, after its watcher has finished.
Conclude = Callable[[Header, RunResult], None]


def start_upgrade(
    app: AppContext, request: UpgradeRequest, interrupts: Interrupts, conclude: Conclude
) -> RunResult:
    """Measure both environments of an upgrade; raises UsageError, RunnerError, JobError or Interrupted."""
    settings = app.settings
    check_judged(request.also)
    policy, plan = choose_policy(settings, request.policy), pairs_plan(request.pairs)
    profile = choose_profile(settings, request.profile)
    suite = choose_suite(settings, request.suite, list(request.cases), bool(request.case_files))
    if not request.budget:
        # How many cases the patterns leave, or pairs a budget, is known only when the environment was asked.
        refuse_too_many(1 if request.cases else max(1, len(suite.cases)), 2 * plan.largest)
    for text in (request.old, request.new):
        wanted(settings, text)
    harness = harnesses.build(app.places.data_dir / "harness", request.case_files)
    chosen = Chosen(profile, suite, harness)
    store_pending(app)
    with alone(app.reporter):
        prepared = prepare_upgrade(app, request, chosen, plan, policy)
        return measured(app, prepared, interrupts, conclude)


def resume_upgrade(app: AppContext, run: str, interrupts: Interrupts, conclude: Conclude) -> RunResult:
    """Go on with an upgrade that was interrupted.

    Raises CannotResume where that would be another one, and what `start_upgrade` does.
    """
    folder = find_run(app, run)
    store_pending(app)
    header, _, _ = resumable(folder)
    if header.comparison is None:
        raise UsageError(f"run {header.run} compares no environments: pyrometer run --resume {header.run}")
    with alone(app.reporter):
        return measured(app, prepare_again(app, folder), interrupts, conclude)


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
        # The workers die with their session, or with this process.
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
        _move_threads(profile.housekeeping)
    try:
        yield
    finally:
        _move_threads(before)


def _move_threads(cpus: Iterable[int]) -> None:
    """Keep every thread of this process on these CPUs; libraries start some when imported."""
    for thread in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread), cpus)
