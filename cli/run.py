"""`pyrometer run`: measure this machine."""

import os
import shlex
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from configuration.nearest import unknown
from runner import drift, journal, machine
from runner import environment as environments
from runner import harness as harnesses
from runner.environment import Environment
from runner.exclusive import exclusive
from runner.harness import Harness
from runner.profile import Profile
from runner.records import Outcome, Planned
from runner.suites.composing import with_baselines
from scheduled_jobs.errors import CannotResume, NothingToMeasure
from scheduled_jobs.header import Header, environment_body, machine_body, profile_body
from scheduled_jobs.measure import RunResult, measure, new_run_id

from .context import FAILED, INTERRUPTED, Context, say, store_pending
from .interrupts import Interrupts
from .operator_tables import print_traces
from .report import print_report
from .selection import (
    choose_cases,
    choose_environment,
    choose_profile,
    choose_suite,
    one_each,
    spelled,
    tracing_suite,
)
from .watchers import choose_watcher


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What was typed."""

    suite: str | None = None
    environment: str | None = None
    python: Path | None = None
    cases: tuple[str, ...] = ()
    case_files: tuple[Path, ...] = ()
    profile: str | None = None
    device: str | None = None
    replicates: int | None = None
    budget: float | None = None
    deadline: float | None = None
    json: bool = False
    trace_steps: int = 0


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that can start: its description, and what stays the same when it is resumed."""

    header: Header
    profile: Profile
    harness: Harness
    known: tuple[Outcome, ...] = ()


def start(here: Context, request: RunRequest, interrupts: Interrupts) -> RunResult:
    """Plan and measure a new run; raises UsageError, RunnerError or JobError with one sentence."""
    store_pending(here)
    with _alone():
        return _measure(here, _prepare(here, request), request.json, interrupts)


def resume(here: Context, run: str, json: bool, interrupts: Interrupts) -> RunResult:
    """Go on with a run that was interrupted or killed; raises CannotResume when that makes no sense."""
    store_pending(here)
    with _alone():
        return _measure(here, _prepare_again(here, run), json, interrupts)


def exit_code(run: Callable[[], RunResult]) -> int:
    """Have `run` measure, and answer the command's exit code."""
    try:
        result = run()
    except KeyboardInterrupt:
        say("interrupted before anything was measured")
        return INTERRUPTED
    if result.state == "interrupted":
        return INTERRUPTED
    well = ("ok", "skipped", "unsupported")
    return 0 if all(outcome.status in well for outcome in result.outcomes) else FAILED


def _prepare(here: Context, request: RunRequest) -> Prepared:
    settings = here.settings
    profile = choose_profile(settings, request.profile)
    name, python = choose_environment(settings, request.environment, request.python)
    if request.trace_steps:
        suite = tracing_suite(request.trace_steps)
    else:
        suite = choose_suite(settings, request.suite, list(request.cases), bool(request.case_files))
    harness = harnesses.build(here.places.data_dir / "harness", request.case_files)
    described = environments.describe(name, python, harness, profile)
    for module, reason in described.broken_cases.items():
        raise NothingToMeasure(f"{module}.py cannot be loaded: {reason}")
    patterns = [spelled(pattern) for pattern in request.cases]
    cases = choose_cases(suite, patterns, described, settings)
    if not cases:
        raise NothingToMeasure("no case is selected")
    cases = one_each(cases, patterns) if request.trace_steps else _beside_baselines(cases)
    timing = replace(suite.timing, deadline_seconds=request.deadline or suite.timing.deadline_seconds)
    replicates = request.replicates or suite.replicates
    planned = [Planned(case, described.fingerprint, r) for r in range(replicates) for case in cases]
    gpus = gpus_in_use(described, request.device or suite.device)
    facts = machine.describe(gpus)
    header = Header(
        run=new_run_id(),
        suite=suite.name,
        started_at=datetime.now(UTC).isoformat(),
        command=shlex.join(["pyrometer", *sys.argv[1:]]).encode(errors="replace").decode(),
        machine=machine_body(facts),
        environments=(environment_body(described),),
        profile=profile_body(profile),
        harness=harness.version,
        harness_path=str(harness.path),
        user_version=harness.user_version,
        timing=asdict(timing),
        device="cuda:0" if gpus else "cpu",
        budget_seconds=request.budget or suite.budget_seconds,
        planned=tuple((p.case, p.environment, p.replicate) for p in planned),
        notes=here.places.notes + profile.notes + machine.limits(described.gpus),
        version=version("pyrometer"),
        canary=None if request.trace_steps else drift.canary_of(profile).environment(),
    )
    return Prepared(header, profile, harness)


def _beside_baselines(cases: list[str]) -> list[str]:
    """The cases, each technique after its baseline: without that, nobody could tell what it brings."""
    beside, added = with_baselines(cases)
    if added:
        say(f"note: measured as well, for a technique is set against it: {', '.join(sorted(added))}")
    return list(beside)


def gpus_in_use(environment: Environment, device: str) -> list[Mapping[str, Any]]:
    """The GPUs that a run on `device` (`auto`, `cpu` or a CUDA device) is compared by.

    A run on the CPU is compared with others on such a CPU: were the GPUs beside it part of its hardware, its
    numbers would join the series of those that were measured on them.
    """
    return [] if device == "cpu" else environment.gpus


def _prepare_again(here: Context, run: str) -> Prepared:
    folder = _find_run(here, run)
    path = folder / journal.FILE
    contents = journal.read(path)
    header = Header.from_body(contents.header)
    if not contents.missing(header.replicates):
        raise CannotResume(f"run {header.run} is complete: there is nothing to resume")
    p = header.profile
    profile = Profile(
        p["name"], p["variables"], tuple(p["cpus"]), tuple(p["housekeeping"]), p["threads"], header.notes
    )
    harness = Harness(Path(header.harness_path), header.harness, header.user_version, ())
    if not harness.path.exists():
        raise CannotResume(f"run {header.run}: its harness {harness.path} is gone; start a new run")
    if set(profile.cpus) - os.sched_getaffinity(0):
        raise CannotResume(f"run {header.run} was pinned to CPUs that are not available now; start a new run")
    for target in header.targets.values():
        described = environments.describe(target.name, Path(target.python), harness, profile)
        if described.fingerprint != target.fingerprint:
            raise CannotResume(
                f"environment {target.name} has changed since run {header.run} began; start a new run"
            )
        gpus = gpus_in_use(described, header.device)
        if machine.describe(gpus).hardware_fingerprint != header.machine["hardware_fingerprint"]:
            raise CannotResume(f"run {header.run} belongs to other hardware; start a new run")
    for line in contents.set_aside:
        say(f"note: journal {line}; set aside, its case is measured again")
    return Prepared(header, profile, harness, contents.outcomes)


def _find_run(here: Context, run: str) -> Path:
    # An empty journal is a run that was killed before it began: there is nothing to go on with.
    journals = here.runs.glob(f"*/{journal.FILE}")
    known = sorted(path.parent.name for path in journals if path.stat().st_size)
    if not known:
        raise CannotResume(f"there is no run in {here.runs}")
    if run == "latest":
        return here.runs / known[-1]
    if run not in known:
        raise CannotResume(unknown("run", run, known))
    return here.runs / run


def _measure(here: Context, prepared: Prepared, json: bool, interrupts: Interrupts) -> RunResult:
    header = prepared.header
    try:
        with interrupts.deferred():
            return _watched(here, prepared, json, interrupts)
    except KeyboardInterrupt:
        # Asked twice. The workers die with the executor, or with this process.
        say(f"stopped at once; the journal keeps what is measured, {_go_on(header)}")
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        say(f"nobody reads the output any more: stopped; {_go_on(header)}")
        raise


def _watched(here: Context, prepared: Prepared, json: bool, interrupts: Interrupts) -> RunResult:
    header, profile = prepared.header, prepared.profile
    # A pipe has no width: 80 columns would fold every case key.
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 160)
    # The watcher comes second: the thread of its display must stay off the measured CPUs as well.
    with _housekeeping(profile), choose_watcher(console, json) as watcher:
        result = measure(
            header,
            profile,
            prepared.harness,
            here.runs / header.run,
            prepared.known,
            here.open_database,
            watcher,
            interrupts.asked,
        )
        watcher.finished(result)
    if not json:
        if header.timing_policy.trace_steps:
            print_traces(console, header, result, here.runs / header.run)
        print_report(console, header, result)
    elif result.state != "complete":
        say(_go_on(header))
    return result


def _go_on(header: Header) -> str:
    return f"go on with: pyrometer run --resume {header.run}"


@contextmanager
def _alone() -> Generator[None]:
    with exclusive(lambda: say("another run measures this machine: waiting for its end (Ctrl-C gives up)")):
        yield


@contextmanager
def _housekeeping(profile: Profile) -> Generator[None]:
    """Keep this process off the CPUs that are measured."""
    before = os.sched_getaffinity(0)
    if profile.housekeeping:
        os.sched_setaffinity(0, profile.housekeeping)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
