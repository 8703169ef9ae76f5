"""`pyrometer upgrade OLD NEW` measures both in pairs and gives a verdict; `bisect` finds a first bad
version.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from common.interrupts import Interrupts, interruptible
from records.kinds import RunState
from workflows.bisection.bisector import Bisector, BisectRequest, begin, shelf
from workflows.errors import RunInterrupted, UsageError
from workflows.ingest import store_pending
from workflows.planning.plan_upgrade import UpgradeRequest
from workflows.run_locally import resume_upgrade, start_upgrade

from ..context import INTERRUPTED, context, in_one_sentence, interrupted_beforehand, refused_for_good, say
from ..options import (
    Also,
    Because,
    CaseFiles,
    Cases,
    CensusFile,
    ColdPairs,
    Confirms,
    Device,
    JsonLines,
    LockClocks,
    On,
    Packages,
    Pairs,
    Reports,
    RunId,
    StepFile,
    Tests,
    Wait,
    Waived,
    WaivedBy,
    finite,
)
from ..output.bisect_report import JsonBisection, TerminalBisection, write_bisection
from ..output.console import report_console
from ..output.upgrade_report import UpgradeConclusion, check_reports

#: Exit codes of an upgrade; 2 and 130 are those of every command, 4 is a run that cannot be resumed.
UPGRADE_CODES = {"go": 0, "no-go": 1, "unclear": 3}


UPGRADE_HELP = """Measure two environments together and decide whether to move from OLD to NEW.

\b
pyrometer upgrade 2.12.1 2.13.0                     builds both if missing, suite `smoke`
pyrometer upgrade default nightly --suite cpu
pyrometer upgrade default ~/venv/bin/python --case resnet50 --report verdict.html
pyrometer upgrade default default                   compare an environment with itself (A/A test)
pyrometer upgrade default nightly --suite full --screen  two short pairs of each case first
pyrometer upgrade 2.9.1 2.13.0 --step repro.py --report issue.md
pyrometer upgrade 2.12.1 2.13.0 --pytest tests/perf  your own tests (see clients/pytest_pyrometer)
pyrometer upgrade 2.12.1 2.13.0 --on h200 --on a10  on every machine with one of these labels
pyrometer upgrade --resume latest                   resume an interrupted upgrade

OLD and NEW: a declared name, a version, `nightly`, a wheel, or an interpreter. Each case is measured in pairs
of fresh processes that take turns, until the suite is decided. `go`: nothing broke, no case is slower by
10 %, at most one case in ten by 5 %, and the mean by at most 1 %; a policy in pyrometer.toml
([policies.NAME]) sets other limits. Exclude a case whose slowdown you accept with --waive CASE --because
TEXT, here or later in `pyrometer report`. With --on the schedulers of those machines run the upgrade as a
task. The verdict is the worst of all machines; it is unclear if a machine failed.
Exit code: 0 go (also with warnings), 1 no-go, 3 unclear, 2 wrong usage, or it cannot start, 130 interrupted;
with --resume also 4: this run can never be resumed.
"""


Suite = Annotated[str | None, typer.Option("--suite", "-s", help="suite to measure [default: smoke]")]
Preset = Annotated[str | None, typer.Option(help="measurement preset [default: quiet]")]
PolicyName = Annotated[str | None, typer.Option(help="policy to judge by [default: default]")]
Budget = Annotated[
    float | None, typer.Option(min=1, callback=finite, help="time limit of all measurements, in seconds")
]
Deadline = Annotated[
    float | None, typer.Option(min=1, callback=finite, help="time limit of one process, in seconds")
]
Fingerprint = Annotated[
    bool, typer.Option(help="first record differing operators and kernels, without timing")
]
Screened = Annotated[
    bool,
    typer.Option(
        "--screen",
        help="measure in full only cases with differing operators or kernels, or with a difference of 10 %",
    ),
]


def upgrade(
    old: Annotated[str | None, typer.Argument(help="the environment that you use now")] = None,
    new: Annotated[str | None, typer.Argument(help="the environment that you may move to")] = None,
    suite: Suite = None,
    case: Cases = None,
    cases: CaseFiles = None,
    census: CensusFile = None,
    step: StepFile = None,
    pytest: Tests = None,
    package: Packages = None,
    preset: Preset = None,
    policy: PolicyName = None,
    device: Device = None,
    lock_clocks: LockClocks = None,
    pairs: Pairs = None,
    cold_pairs: ColdPairs = None,
    also: Also = None,
    budget: Budget = None,
    deadline: Deadline = None,
    waive: Waived = None,
    because: Because = None,
    waived_by: WaivedBy = None,
    on: On = None,
    wait: Wait = True,
    report: Reports = None,
    resume: Annotated[str | None, typer.Option(help="resume this upgrade: its run, or `latest`")] = None,
    run_id: RunId = None,
    confirms: Confirms = False,
    fingerprint: Fingerprint = True,
    screen: Screened = False,
    as_json: JsonLines = False,
) -> None:
    """Judge an upgrade (the help text is a constant, which keeps its layout)."""
    request = UpgradeRequest(
        *(old or "", new or ""),
        suite=suite,
        cases=tuple(case or ()),
        case_files=tuple(cases or ()),
        census=census,
        preset=preset,
        policy=policy,
        device=device,
        pairs=pairs,
        cold_pairs=cold_pairs,
        also=tuple(dict.fromkeys(also or ())),
        budget=budget,
        deadline=deadline,
        run_id=run_id,
        confirms=confirms,
        **_waivers(waive, because, waived_by),
        fingerprints=fingerprint,
        screen=screen,
        lock_clocks=lock_clocks,
        **_own_code(step, pytest, package),
    )
    with in_one_sentence(), interruptible() as interrupts:
        if on or not wait:
            code = _upgrade_machines(request, on or (), resume, report or (), wait=wait, as_json=as_json)
            raise typer.Exit(code)
        raise typer.Exit(_upgrade_this_machine(request, resume, interrupts, report or (), as_json=as_json))


def _waivers(waive: list[str] | None, because: list[str] | None, user: str | None) -> dict[str, Any]:
    """The fields of a request for waived cases: patterns, reason, and the name of the user."""
    return {"waive": tuple(waive or ()), "because": tuple(because or ()), "waived_by": user or ""}


def _own_code(step: str | None, tests: list[str] | None, package: list[str] | None) -> dict[str, Any]:
    """The fields of a request for the code of the user and the packages that it needs."""
    return {"step": step, "tests": tuple(tests or ()), "packages": tuple(package or ())}


def _upgrade_this_machine(
    request: UpgradeRequest,
    resumed: str | None,
    interrupts: Interrupts,
    reports: Sequence[Path],
    *,
    as_json: bool,
) -> int:
    """Begin or resume an upgrade here; returns the exit code. Raises UsageError, RunnerError or JobError."""
    if resumed is not None and request != UpgradeRequest():
        raise UsageError("--resume continues the stored plan; it cannot be combined with a selection")
    if resumed is None:
        _check_ends(request)
    app = context(noting=False, as_json=as_json)
    check_reports(reports)
    conclusion = UpgradeConclusion(reports, as_json=as_json)
    if resumed is not None:
        with refused_for_good():
            result = resume_upgrade(app, resumed, interrupts, conclusion)
    else:
        with interrupted_beforehand():
            result = start_upgrade(app, request, interrupts, conclusion)
    return INTERRUPTED if result.state == RunState.INTERRUPTED else UPGRADE_CODES[conclusion.decision]


def _check_ends(request: UpgradeRequest) -> None:
    if not (request.old and request.new):
        raise UsageError("give both environments: pyrometer upgrade OLD NEW")


def _upgrade_machines(
    request: UpgradeRequest,
    labels: Sequence[str],
    resumed: str | None,
    reports: Sequence[Path],
    *,
    wait: bool,
    as_json: bool,
) -> int:
    """Have all machines with a label measure; returns the exit code. Raises UsageError or DatabaseError."""
    # The queue needs a database and the scheduler, which take a second to import.
    from fleet.upgrade_tasks import queue_upgrade

    from ..output.fleet_upgrade_report import print_queued, watch

    if not labels:
        raise UsageError("--no-wait requires --on: an upgrade on this machine is always waited for")
    if request.tests:
        raise UsageError("--pytest cannot be combined with --on: the tests are on this machine")
    if request.lock_clocks is not None:
        raise UsageError("--lock-clocks cannot be combined with --on: it requires root on each machine")
    if resumed is not None:
        raise UsageError("--resume cannot be combined with --on: each machine resumes its own run")
    if reports and not wait:
        raise UsageError("--no-wait cannot be combined with --report: there is no verdict to write yet")
    _check_ends(request)
    app = context(as_json=as_json)
    check_reports(reports)
    tasks = queue_upgrade(app, request, labels)
    print_queued(tasks, as_json=as_json)
    if not wait:
        return 0
    try:
        found = watch(app, request, tasks, reports, as_json=as_json)
    except KeyboardInterrupt:
        say(
            "the tasks stay queued: `pyrometer tasks list` lists them, `pyrometer tasks cancel TASK` ends one"
        )
        return INTERRUPTED
    return UPGRADE_CODES[found.decision]


#: Exit codes of a bisection; 2 and 130 are those of every command.
BISECT_CODES = {"pair": 0, "range": 3, "gradual": 3, "alike": 3}
BISECT_HELP = """Find the first version between GOOD and BAD in which a case is slower or fails.

\b
pyrometer bisect 2.10.0 2.13.0 --case resnet50/infer/batch=1,image=64/eager
pyrometer bisect 'nightly 2026-11-01' 'nightly 2026-11-20' --case KEY --pairs 20
pyrometer bisect 2.10.0 2.13.0 --case KEY --metric rss_peak
pyrometer bisect 2.9.1 2.13.0 --step repro.py
pyrometer bisect default ~/new/.venv --candidates ~/a/.venv,~/b/.venv --case KEY --cases my_cases.py
pyrometer bisect --resume latest                resume an interrupted bisection

GOOD and BAD: as in `upgrade`. The candidates between two versions are the releases that the package index
offers, between two nightlies the nightlies; otherwise list them in order with --candidates. The ends are
compared first, then the middle with GOOD, and finally the remaining two with each other. An environment that
cannot be built or imported is skipped. Each comparison is a run of its own, which `pyrometer report` shows.
Exit code: 0 the pair is found, 3 it is not found (the ends do not differ, or those between cannot be judged),
2 wrong usage, 130 interrupted.
"""


def bisect(
    good: Annotated[
        str | None, typer.Argument(help="an environment in which the case is as fast as it should be")
    ] = None,
    bad: Annotated[str | None, typer.Argument(help="an environment in which it is slower, or fails")] = None,
    case: Annotated[
        str | None, typer.Option("--case", help="the case to follow: its key, or a pattern")
    ] = None,
    candidates: Annotated[
        str | None,
        typer.Option(help="the environments between them, in order: specs or names, separated by commas"),
    ] = None,
    suite: Annotated[str | None, typer.Option("--suite", "-s", help="suite whose timing to use")] = None,
    cases: CaseFiles = None,
    step: StepFile = None,
    package: Packages = None,
    preset: Preset = None,
    policy: PolicyName = None,
    metric: Annotated[str | None, typer.Option(help="what to follow [default: the policy's metric]")] = None,
    device: Device = None,
    pairs: Annotated[
        int | None, typer.Option(help="largest number of pairs in each comparison [default: 12]")
    ] = None,
    deadline: Deadline = None,
    report: Annotated[Path | None, typer.Option("--report", help="write the report to FILE.json")] = None,
    resume: Annotated[str | None, typer.Option(help="resume this bisection: its id, or `latest`")] = None,
    as_json: JsonLines = False,
) -> None:
    """Find where a case changed (the help text is a constant, which keeps its layout)."""
    request = BisectRequest(
        good=good or "",
        bad=bad or "",
        case=case or "",
        candidates=candidates,
        suite=suite,
        case_files=tuple(cases or ()),
        preset=preset,
        policy=policy,
        metric=metric,
        device=device,
        pairs=pairs,
        deadline=deadline,
        step=step,
        packages=tuple(package or ()),
    )
    with in_one_sentence(), interruptible() as interrupts:
        raise typer.Exit(_run_bisection(request, resume, interrupts, report, as_json=as_json))


def _run_bisection(
    request: BisectRequest,
    resumed: str | None,
    interrupts: Interrupts,
    report: Path | None,
    *,
    as_json: bool,
) -> int:
    """Begin or resume a bisection; returns the exit code. Raises UsageError, RunnerError or JobError."""
    _check_report(report)
    if resumed is not None:
        if request != BisectRequest():
            raise UsageError("--resume continues the stored plan; it cannot be combined with a selection")
        app_context = context(as_json=as_json)
        bisection = shelf(app_context).load(resumed)
    else:
        if not (request.good and request.bad and (request.case or request.step)):
            raise UsageError("give both ends and a case: pyrometer bisect GOOD BAD --case KEY")
        app_context = context(as_json=as_json)
        bisection = begin(app_context, request)
    store_pending(app_context)
    reporter = JsonBisection(report_console()) if as_json else TerminalBisection(report_console())
    with shelf(app_context).lock_bisection(bisection.id):
        # The process that held the lock may have continued the bisection.
        bisection = shelf(app_context).load(bisection.id) if resumed else bisection
        bisector = Bisector(app_context, bisection, reporter, interrupts)
        end = None
        try:
            end = bisector.to_its_end()
        except RunInterrupted as error:
            say(str(error))
        except KeyboardInterrupt:
            # Nothing is measured at this point.
            end = None
        finally:
            if end is None and bisector.begun:
                say(f"resume with: pyrometer bisect --resume {bisection.id}")
    if end is None:
        return INTERRUPTED
    reporter.report_end(bisector.bisection, end)
    if report:
        write_bisection(bisector.bisection, end, report)
    return BISECT_CODES[end.kind]


def _check_report(file: Path | None) -> None:
    if file is None:
        return
    if file.suffix != ".json":
        raise UsageError(f"{file}: the report of a bisection needs the suffix .json")
    if file.is_dir() or not os.access(file.parent, os.W_OK):
        raise UsageError(f"{file}: the file cannot be written")
