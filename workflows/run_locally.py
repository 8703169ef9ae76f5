"""Measure a run on this machine, or take fingerprints: under the machine lock, with progress and a report."""

import os
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from analysis.comparison.plan import Plan
from analysis.decision.suite_decision import SUITE_PAIRS
from common.interrupts import Interrupts
from configuration.settings import DEFAULT_ENVIRONMENT
from records.kinds import RunKind, RunState
from runner.environment import check_interpreter
from runner.execution import harness as harnesses
from runner.execution.machine_lock import exclusive, holder
from runner.journal import Journal
from runner.node_locks import exclusive_nodes
from runner.nodes import Node
from runner.nodes import read_nodes as read_nodes
from runner.preset import MachinePreset
from runner.step_file import step_case
from runner.suites import plan
from runner.suites.suite import with_baselines
from runner.telemetry.gpu.clock_lock import locked_clocks

from .app_context import AppContext, Reporter
from .database_upkeep import Retention
from .errors import NothingToMeasure, RunInterrupted, UsageError
from .fingerprints import Fingerprints, take_afterwards, take_all, with_differences
from .ingest import store_pending
from .load_run import refuse_report
from .measure import RunResult, measure
from .planning.generated_cases import census_cases, with_test_cases
from .planning.plan_run import (
    Chosen,
    PreparedRun,
    RunPlan,
    ask,
    check_alike,
    check_device,
    find_run,
    gpus_in_use,
    prepare,
    prepare_again,
    resumable,
    timing_of,
)
from .planning.plan_upgrade import (
    UpgradeRequest,
    check_judged,
    check_screen,
    choose_policy,
    choose_step,
    pairs_plan,
    prepare_upgrade,
    waivers,
    with_screen,
)
from .planning.resolve_environment import (
    ReadyEnvironment,
    choose_environment,
    make_ready,
    parse_environment,
    store_of,
    with_packages,
)
from .planning.select_cases import (
    CHOSEN,
    canonical_key,
    choose_cases,
    choose_preset,
    choose_suite,
    one_each,
    refuse_long,
    refuse_too_many,
    tracing_suite,
    with_telemetry,
)
from .run_header import Header

#: Shows the end of a run, after its watcher has finished.
Conclude = Callable[[Header, RunResult], None]


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What is to be measured; None: the default of the settings.

    `budget` and `deadline` are seconds. With `trace_steps` so many steps of each case are traced instead.
    `fingerprints`: whether those that are missing are taken after the measuring. `lock_clocks`: where the SM
    clocks of the measured GPUs are held, in MHz.
    """

    suite: str | None = None
    environment: str | None = None
    python: Path | None = None
    cases: tuple[str, ...] = ()
    case_files: tuple[Path, ...] = ()
    census: Path | None = None
    preset: str | None = None
    device: str | None = None
    replicates: int | None = None
    budget: float | None = None
    deadline: float | None = None
    trace_steps: int = 0
    run_id: str | None = None
    nodes: Path | None = None
    yes: bool = False
    fingerprints: bool = False
    lock_clocks: int | None = None


@dataclass(frozen=True, slots=True)
class FingerprintRequest:
    """Which cases of which environments; None: the default of the settings. `deadline` is in seconds.

    With `again` also those are taken that are stored.
    """

    environments: tuple[str, ...]
    cases: tuple[str, ...] = ()
    suite: str | None = None
    case_files: tuple[Path, ...] = ()
    preset: str | None = None
    device: str | None = None
    deadline: float | None = None
    again: bool = False


def start_run(app: AppContext, request: RunRequest, interrupts: Interrupts, conclude: Conclude) -> RunResult:
    """Plan and measure a new run; raises UsageError, RunnerError, JobError or RunInterrupted."""
    # Errors that are known at once are raised before waiting for another run.
    if request.census is not None:
        found = census_cases(app, request.census, request.suite, request.cases, request.case_files)
        request = replace(request, cases=found.keys, case_files=(found.file,), census=None)
    nodes = read_nodes(request.nodes) if request.nodes else ()
    chosen = _choose(app, request)
    store_pending(app)
    with exclusive_machine(app.reporter, nodes):
        prepared = _prepare(app, request, chosen, nodes)
        return _measured_run(app, prepared, interrupts, conclude)


def resume_run(
    app: AppContext,
    run: str,
    nodes: Path | None,
    interrupts: Interrupts,
    conclude: Conclude,
    *,
    reported: bool = False,
) -> RunResult:
    """Resume a run that was interrupted or killed; `nodes` is the file that names its nodes.

    Raises CannotResume where that would be another run, and UsageError, RunnerError or JobError besides;
    before anything is measured also where it is to be `reported` and was traced.
    """
    folder = find_run(app, run)
    # First, because a complete run may still have to be stored.
    store_pending(app)
    header, _, _ = resumable(folder)
    if reported and header.comparison is None:
        refuse_report(header.run, header.source, traced=header.kind == RunKind.TRACE)
    nodes_read = read_nodes(nodes) if nodes else ()
    with exclusive_machine(app.reporter, nodes_read):
        return _measured_run(app, prepare_again(app, folder, nodes_read), interrupts, conclude)


def _measured_run(
    app: AppContext, prepared: PreparedRun, interrupts: Interrupts, conclude: Conclude
) -> RunResult:
    """Have a run measured; then its fingerprints are taken where it was to."""
    result = measure_watched(app, prepared, interrupts, conclude)
    header = prepared.header
    if header.fingerprints and header.comparison is None and result.state == RunState.COMPLETE:
        with store_of(app).lock_interpreters([target.python for target in header.targets.values()]):
            take_afterwards(app, prepared, result.outcomes, interrupts)
    return result


def _choose(app: AppContext, request: RunRequest) -> Chosen:
    settings = app.settings
    preset = choose_preset(settings, request.preset)
    if request.trace_steps:
        suite = tracing_suite(request.trace_steps)
    else:
        suite = with_telemetry(
            choose_suite(settings, request.suite, list(request.cases), bool(request.case_files))
        )
    # The number of cases that match is known only when the environment has been examined.
    least = 1 if request.cases else max(1, len(suite.cases))
    refuse_too_many(least, request.replicates or suite.replicates)
    # After the checks above, which need no environment.
    _check_environment(app, request)
    harness = harnesses.build(app.places.data_dir / "harness", request.case_files)
    return Chosen(preset, suite, harness)


def _check_environment(app: AppContext, request: RunRequest) -> None:
    """Refuse a wrong environment; one that has to be built is built when this machine is free."""
    if request.python is not None:
        check_interpreter(*choose_environment(app, request.environment, request.python))
        return
    named = DEFAULT_ENVIRONMENT if request.environment is None else request.environment
    meant = parse_environment(app.settings, named)
    if meant.python is not None:
        check_interpreter(meant.name, meant.python)


def _prepare(app: AppContext, request: RunRequest, chosen: Chosen, nodes: tuple[Node, ...]) -> PreparedRun:
    settings, suite = app.settings, chosen.suite
    probed = ask(chosen, [ReadyEnvironment(*choose_environment(app, request.environment, request.python))])
    (described,) = probed.environments
    patterns = [canonical_key(pattern) for pattern in request.cases]
    cases = choose_cases(suite, patterns, described, settings)
    if not cases:
        raise NothingToMeasure("no case is selected")
    cases = one_each(cases, patterns) if request.trace_steps else _with_baselines(app, cases)
    timing = timing_of(suite, request.deadline, settings)
    replicates = request.replicates or suite.replicates
    refuse_too_many(len(cases), replicates)
    planned = plan.replicates(cases, replicates, described.fingerprint)
    budget, device = request.budget or suite.budget_seconds, request.device or suite.device
    if suite.name == CHOSEN and not (request.yes or request.budget or request.run_id):
        refuse_long(patterns, planned, timing, on_cuda=bool(gpus_in_use(described, device)))
    run_plan = RunPlan(
        planned, timing, budget, device, fingerprints=request.fingerprints, lock_clocks=request.lock_clocks
    )
    return prepare(app, chosen, probed, run_plan, request.run_id, nodes)


def _with_baselines(app: AppContext, cases: list[str]) -> list[str]:
    """The cases, each technique after its baseline, which its speed-up needs."""
    complete, added = with_baselines(cases)
    if added:
        app.reporter.note(f"measured as well, for a technique is set against it: {', '.join(sorted(added))}")
    return list(complete)


def start_upgrade(
    app: AppContext, request: UpgradeRequest, interrupts: Interrupts, conclude: Conclude
) -> RunResult:
    """Measure both environments of an upgrade; raises UsageError, RunnerError, JobError or RunInterrupted."""
    settings = app.settings
    check_judged(request.also)
    policy, usual = (
        choose_policy(settings, request.policy),
        Plan().largest if request.confirms else SUITE_PAIRS,
    )
    request = with_test_cases(app, request)
    if request.census is not None:
        others = request.suite, request.cases, request.case_files, request.step
        found = census_cases(app, request.census, *others)
        request = replace(request, cases=found.keys, case_files=(found.file,), census=None)
        policy = replace(policy, weights=found.weights)
    pairs = pairs_plan(request.pairs, usual=usual)
    waivers(request.waive, request.because)
    check_screen(request, policy)
    step = choose_step(request.step, request.suite, [*request.cases, *map(str, request.case_files)])
    if step is not None:
        request = replace(request, cases=(step_case(step),))
    preset = choose_preset(settings, request.preset)
    suite = choose_suite(settings, request.suite, list(request.cases), bool(request.case_files))
    if not request.budget:
        # How many cases the patterns leave, or pairs a budget, is known only when the environment was asked.
        refuse_too_many(1 if request.cases else max(1, len(suite.cases)), 2 * pairs.largest)
    for text in (request.old, request.new):
        with_packages(parse_environment(settings, text), request.packages)
    harness = harnesses.build(app.places.data_dir / "harness", request.case_files, step)
    chosen = Chosen(preset, suite, harness)
    store_pending(app)
    with exclusive_machine(app.reporter):
        prepared = prepare_upgrade(app, request, chosen, pairs, policy)
        prepared = with_screen(with_differences(app, prepared, interrupts))
        return measure_watched(app, prepared, interrupts, conclude)


def resume_upgrade(app: AppContext, run: str, interrupts: Interrupts, conclude: Conclude) -> RunResult:
    """Go on with an upgrade that was interrupted, and take the fingerprints that are missing.

    Raises CannotResume where that would be another one, and what `start_upgrade` does.
    """
    folder = find_run(app, run)
    store_pending(app)
    header, _, _ = resumable(folder)
    if header.comparison is None:
        raise UsageError(f"run {header.run} is not an upgrade: pyrometer run --resume {header.run}")
    with exclusive_machine(app.reporter):
        planned = prepare_again(app, folder)
        prepared = with_differences(app, planned, interrupts)
        if prepared is not planned:
            with Journal(folder) as journal:
                journal.header(prepared.header.to_body())
        return measure_watched(app, prepared, interrupts, conclude)


def fingerprints_of(
    app: AppContext, request: FingerprintRequest, interrupts: Interrupts
) -> tuple[Fingerprints, ...]:
    """The fingerprints of every environment of the request, taken where none is stored.

    Environments are built if need be. Raises UsageError, RunnerError, JobError or RunInterrupted.
    """
    preset = choose_preset(app.settings, request.preset)
    suite = choose_suite(app.settings, request.suite, list(request.cases), bool(request.case_files))
    harness = harnesses.build(app.places.data_dir / "harness", request.case_files)
    with exclusive_machine(app.reporter):
        ready = make_ready(app, list(request.environments))
        probed = ask(Chosen(preset, suite, harness), ready)
        described = probed.environments
        device = request.device or suite.device
        check_alike(described, device)
        check_device(probed, device)
        cases = choose_cases(
            suite, [canonical_key(pattern) for pattern in request.cases], described[0], app.settings
        )
        if not cases:
            raise NothingToMeasure("no case is selected")
        deadline = request.deadline or suite.timing.deadline_seconds
        with store_of(app).lock_interpreters([one.python for one in described]), interrupts.defer_signals():
            return tuple(
                take_all(app, one, preset, harness, device, cases, deadline, interrupts, again=request.again)
                for one in described
            )


def measure_watched(
    app: AppContext, prepared: PreparedRun, interrupts: Interrupts, conclude: Conclude
) -> RunResult:
    """Have a run measured and watched; raises RunInterrupted where a second signal ends it at once.

    Raises ClocksNotLocked before anything is measured where its clocks are to be held and a driver refuses.
    """
    header = prepared.header
    try:
        pythons = [target.python for target in header.targets.values()]
        with (
            interrupts.defer_signals(),
            store_of(app).lock_interpreters(pythons),
            _reporting_notes(app.reporter),
        ):
            with _holding_clocks(header, app.reporter):
                result = _measure_run(app, prepared, interrupts)
            conclude(header, result)
            return result
    except KeyboardInterrupt:
        # The workers die with their session, or with this process.
        raise RunInterrupted(
            f"stopped at once; the journal keeps what is measured, {resume_command(header)}"
        ) from None
    except BrokenPipeError:
        app.reporter.progress(f"the output is closed: stopped; {resume_command(header)}")
        raise


def _measure_run(app: AppContext, prepared: PreparedRun, interrupts: Interrupts) -> RunResult:
    header, preset = prepared.header, prepared.preset
    # The watcher comes second: the thread of its display must stay off the measured CPUs as well.
    with on_housekeeping_cpus(preset), app.reporter.open_watcher() as watcher:
        result = measure(
            header,
            preset,
            prepared.harness,
            app.runs / header.run,
            prepared.known,
            app.open_database,
            watcher,
            interrupts.requested,
            Retention(app.settings.telemetry_days, app.settings.samples_days),
            prepared.nodes,
        )
        watcher.report_end(result)
    return result


def _holding_clocks(header: Header, reporter: Reporter) -> AbstractContextManager[None]:
    if header.locked_clock is None:
        return nullcontext()
    return locked_clocks(header.locked_clock, header.cards, reporter.note)


@contextmanager
def _reporting_notes(reporter: Reporter) -> Generator[None]:
    """Report the notes of an error that passes: where a run has put what it could not keep."""
    try:
        yield
    except BaseException as error:
        for note in getattr(error, "__notes__", ()):
            reporter.note(note)
        raise


def resume_command(header: Header) -> str:
    """The command that resumes a run."""
    command = "run" if header.comparison is None else "upgrade"
    return f"resume with: pyrometer {command} --resume {header.run}"


@contextmanager
def exclusive_machine(reporter: Reporter, nodes: tuple[Node, ...] = ()) -> Generator[None]:
    """No other run measures this machine, or one of `nodes`, within the block.

    The reporter learns which one is waited for. Raises NodeFailed for a node that is not reached.
    """

    def report_wait() -> None:
        name = holder()
        reporter.report_wait(f"another run measures this machine{f' ({name})' if name else ''}")

    with exclusive(report_wait), exclusive_nodes(nodes, reporter.report_wait):
        yield


@contextmanager
def on_housekeeping_cpus(preset: MachinePreset) -> Generator[None]:
    """Keep this process off the CPUs that are measured."""
    before = os.sched_getaffinity(0)
    if preset.housekeeping:
        _move_threads(preset.housekeeping)
    try:
        yield
    finally:
        _move_threads(before)


def _move_threads(cpus: Iterable[int]) -> None:
    """Keep every thread of this process on these CPUs; libraries start some when imported."""
    for thread in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread), cpus)
