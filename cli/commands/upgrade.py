"""`pyrometer upgrade OLD NEW`: both measured together, pair by pair, and a verdict with its evidence."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from analysis.comparison.comparison import AGAIN, MOST_PAIRS, Comparison
from analysis.comparison.plan import FEWEST, Plan
from analysis.comparison.policy import Policy
from analysis.comparison.thresholds import threshold_of
from runner.environment import Environment
from runner.execution import harness as harnesses
from runner.session_plan import Timing
from runner.suites import plan as sessions
from runner.suites.suite import Suite
from workflows.errors import NothingToMeasure
from workflows.measure import RunResult
from workflows.run_header import Header
from workflows.upgrade import again, pairs_planned

from ..context import (
    INTERRUPTED,
    Context,
    UsageError,
    context,
    in_one_sentence,
    plural,
    refused_for_good,
    say,
    store_pending,
)
from ..interrupts import Interrupts, interruptible
from ..options import Also, CaseFiles, Cases, ColdPairs, Confirms, Device, Pairs, Reports, RunId, finite
from ..output.upgrade_result import check_reports, conclude_upgrade, judge
from ..workflows.plan_run import (
    Asked,
    Chosen,
    Prepared,
    ask,
    find_run,
    prepare,
    prepare_again,
    resumable,
    timing_of,
)
from ..workflows.plan_run import Plan as Planned
from ..workflows.policies import beyond_judging, check_judged, choose_policy, paired
from ..workflows.resolve_environment import make_ready, wanted
from ..workflows.run_locally import alone, measured
from ..workflows.select_cases import (
    CHOSEN,
    choose_cases,
    choose_profile,
    choose_suite,
    refuse_too_many,
    spelled,
)

#: Exit codes of an upgrade; 2 and 130 are those of every command, 4 is what cannot be gone on with.
CODES = {"go": 0, "no-go": 1, "unclear": 3}
#: Without a budget the plan of pairs alone says when it is over.
NO_BUDGET_SECONDS = 7 * 24 * 3600.0


HELP = """Should this machine move from OLD to NEW? Both are measured together, and judged.

\b
pyrometer upgrade 2.12.1 2.13.0                     built if need be, suite `smoke`
pyrometer upgrade default nightly --suite cpu
pyrometer upgrade default ~/venv/bin/python --case resnet50 --report verdict.html
pyrometer upgrade default default                   against itself: what the method makes up
pyrometer upgrade --resume latest                   go on with what was interrupted

OLD and NEW: a declared name, a version, `nightly`, a wheel, or an interpreter. Each case is measured in pairs
of fresh processes that take turns, until its verdict stands: faster, slower, same, or honestly unclear. The
policy in pyrometer.toml ([policies.NAME]) makes one verdict of all of them.
Exit code: 0 go, 1 no-go, 3 unclear, 2 the call makes no sense, 130 interrupted; with --resume also 4, where
that run can never be gone on with.
"""


@dataclass(frozen=True, slots=True)
class UpgradeRequest:
    """What was typed. `old` and `new` are names, versions, wheels or interpreters."""

    old: str = ""
    new: str = ""
    suite: str | None = None
    cases: tuple[str, ...] = ()
    case_files: tuple[Path, ...] = ()
    profile: str | None = None
    policy: str | None = None
    device: str | None = None
    pairs: int | None = None
    cold_pairs: int | None = None
    also: tuple[str, ...] = ()
    budget: float | None = None
    deadline: float | None = None
    reports: tuple[Path, ...] = ()
    json: bool = False
    run_id: str | None = None
    confirms: bool = False


def upgrade(
    old: Annotated[str | None, typer.Argument(help="what you have")] = None,
    new: Annotated[str | None, typer.Argument(help="what you may move to")] = None,
    suite: Annotated[
        str | None, typer.Option("--suite", "-s", help="suite to measure [default: smoke]")
    ] = None,
    case: Cases = None,
    cases: CaseFiles = None,
    profile: Annotated[str | None, typer.Option(help="measurement profile [default: quiet]")] = None,
    policy: Annotated[str | None, typer.Option(help="policy to judge by [default: default]")] = None,
    device: Device = None,
    pairs: Pairs = None,
    cold_pairs: ColdPairs = None,
    also: Also = None,
    budget: Annotated[
        float | None, typer.Option(min=1, callback=finite, help="seconds the measuring may take")
    ] = None,
    deadline: Annotated[
        float | None, typer.Option(min=1, callback=finite, help="seconds one process may take")
    ] = None,
    report: Reports = None,
    resume: Annotated[str | None, typer.Option(help="go on with this upgrade: its run, or `latest`")] = None,
    run_id: RunId = None,
    confirms: Confirms = False,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object per line on stdout")] = False,
) -> None:
    """Judge an upgrade (the help text is above, where its layout survives)."""
    request = UpgradeRequest(
        old=old or "",
        new=new or "",
        suite=suite,
        cases=tuple(case or ()),
        case_files=tuple(cases or ()),
        profile=profile,
        policy=policy,
        device=device,
        pairs=pairs,
        cold_pairs=cold_pairs,
        also=tuple(dict.fromkeys(also or ())),
        budget=budget,
        deadline=deadline,
        reports=tuple(report or ()),
        run_id=run_id,
        confirms=confirms,
        json=as_json,
    )
    with in_one_sentence(), interruptible() as interrupts:
        raise typer.Exit(_run(request, resume, interrupts))


def _run(request: UpgradeRequest, resumed: str | None, interrupts: Interrupts) -> int:
    """Begin or go on with an upgrade; answers the exit code. Raises UsageError, RunnerError or JobError."""
    if resumed is not None:
        if replace(request, reports=(), json=False) != UpgradeRequest():
            raise UsageError("--resume goes on with what was planned; it takes no other selection")
        with refused_for_good():
            return resume(context(noting=False), resumed, request, interrupts)
    if not (request.old and request.new):
        raise UsageError("an upgrade has two ends: pyrometer upgrade OLD NEW")
    try:
        return start(context(noting=False), request, interrupts)
    except KeyboardInterrupt:
        say("interrupted before anything was measured")
        return INTERRUPTED


def start(here: Context, request: UpgradeRequest, interrupts: Interrupts) -> int:
    """Measure both and judge; answers the exit code. Raises UsageError, RunnerError or JobError."""
    settings = here.settings
    check_reports(request.reports)
    check_judged(request.also)
    policy, plan = choose_policy(settings, request.policy), pairs_plan(request.pairs)
    profile = choose_profile(settings, request.profile)
    suite = choose_suite(settings, request.suite, list(request.cases), bool(request.case_files))
    if not request.budget:
        # How many cases the patterns leave, or pairs a budget, is known only when the environment was asked.
        refuse_too_many(1 if request.cases else max(1, len(suite.cases)), 2 * plan.largest)
    for text in (request.old, request.new):
        wanted(settings, text)
    harness = harnesses.build(here.places.data_dir / "harness", request.case_files)
    chosen = Chosen(profile, suite, harness)
    store_pending(here)
    with alone(json=request.json):
        prepared = _prepare(here, request, chosen, plan, policy)
        return _concluded(here, prepared, request, interrupts)


def resume(here: Context, run: str, request: UpgradeRequest, interrupts: Interrupts) -> int:
    """Go on with an upgrade that was interrupted.

    Raises CannotResume where that would be another one, and UsageError, RunnerError or JobError besides.
    """
    check_reports(request.reports)
    folder = find_run(here, run)
    store_pending(here)
    header, _, _ = resumable(folder)
    if header.comparison is None:
        raise UsageError(f"run {header.run} compares no environments: pyrometer run --resume {header.run}")
    with alone(json=request.json):
        return _concluded(here, prepare_again(folder), request, interrupts)


def _concluded(here: Context, prepared: Prepared, request: UpgradeRequest, interrupts: Interrupts) -> int:
    conclude = conclude_upgrade(request.reports, as_json=request.json)
    result = measured(here, prepared, request.json, interrupts, conclude)
    return exit_code(prepared.header, result)


def exit_code(header: Header, result: RunResult) -> int:
    """0 go, 1 no-go, 3 unclear, and 130 for an upgrade that was interrupted."""
    if result.state == "interrupted":
        return INTERRUPTED
    return CODES[judge(header, result).upgrade.decision]


def pairs_plan(pairs: int | None, most: int = MOST_PAIRS) -> Plan:
    """The plan of at most so many pairs, the usual one for None.

    Raises UsageError for an odd number, for fewer than any plan has, and for more than `most`.
    """
    if pairs is None:
        return Plan()
    if pairs < FEWEST or pairs % 2:
        raise UsageError(f"--pairs takes an even number from {FEWEST} on: either side starts first in half")
    if pairs > most:
        raise UsageError(f"--pairs takes {most:,} at most")
    return Plan(smallest=min(Plan().smallest, pairs), largest=pairs)


def _prepare(here: Context, request: UpgradeRequest, chosen: Chosen, plan: Plan, policy: Policy) -> Prepared:
    ready = make_ready(here, [request.old, request.new])
    asked = told_apart(ask(chosen, ready))
    old, new = asked.environments
    suite = chosen.suite
    cases = choose_cases(suite, [spelled(pattern) for pattern in request.cases], old, here.settings)
    if not cases:
        raise NothingToMeasure("no case is selected")
    timing = paired(timing_of(suite, request.deadline, here.settings), policy)
    timing = replace(timing, cold_replicates=request.cold_pairs or timing.cold_replicates)
    _note_unmatched(policy, request.policy or here.settings.policy, cases)
    if unjudged := beyond_judging(policy, timing.cold_replicates, plan, cases):
        say(f"note: {unjudged}")
    if request.budget:
        exact = threshold_of(policy.metric, policy.thresholds).exact
        plan = _affordable(plan, request.budget, cases, timing, 1 if exact else FEWEST)
    refuse_too_many(len(cases), 2 * plan.largest)
    sides = (old.fingerprint, new.fingerprint)
    asked_as, options = (ready[0].asked, ready[1].asked), _options(request, plan, suite)
    comparison = Comparison(*sides, plan, policy, asked_as, options, request.confirms, request.also)
    planned = pairs_planned(comparison, cases)
    budget, device = request.budget or NO_BUDGET_SECONDS, request.device or suite.device
    asked_for = Planned(planned, timing, budget, device, comparison)
    return prepare(here, chosen, asked, asked_for, request.run_id)


def _options(request: UpgradeRequest, plan: Plan, suite: Suite) -> tuple[str, ...]:
    """What a command needs beside the two environments and a case to measure and judge the same."""
    given = {"--profile": request.profile, "--policy": request.policy, "--device": request.device}
    given["--suite"] = suite.name if suite.name != CHOSEN else None
    given["--deadline"] = f"{request.deadline:g}" if request.deadline else None
    given["--cold-pairs"] = str(request.cold_pairs) if request.cold_pairs else None
    named = [part for option, value in given.items() if value for part in (option, value)]
    named += [part for metric in request.also for part in ("--also", metric)]
    files = [part for file in request.case_files for part in ("--cases", str(file.expanduser().absolute()))]
    return (*named, *files, "--pairs", str(plan.largest))


def told_apart(asked: Asked) -> Asked:
    """Both environments, told apart also where they are one."""
    old, new = asked.environments
    if old.fingerprint != new.fingerprint:
        return asked
    if old.python == new.python:
        say("note: both are the same environment: whatever differs comes from the method or the machine")
    else:
        say("note: both say they are the same: whatever differs is nothing that a fingerprint knows")
    return replace(asked, environments=(old, _again(new)))


def _again(environment: Environment) -> Environment:
    facts = {**environment.facts, "fingerprint": again(environment.fingerprint)}
    return replace(environment, name=f"{environment.name}{AGAIN}", facts=facts)


def _note_unmatched(policy: Policy, name: str, cases: Sequence[str]) -> None:
    """Tell of globs that match no case: misspelt, or meant for another suite."""
    for rule, glob in policy.unmatched(cases):
        say(f'note: policy {name}: {rule} "{glob}" matches none of {plural(len(cases), "case")}')


def _affordable(plan: Plan, budget: float, cases: Sequence[str], timing: Timing, fewest: int) -> Plan:
    """The plan that the budget has room for; made before the first pair, never after one.

    With fewer than `fewest` pairs no case is judged.
    """
    seconds = sum(sessions.estimate(one, timing) for one in sessions.replicates(cases, 2))
    room = int(budget // max(seconds, 1.0))
    if room < plan.largest:
        note = f"note: a budget of {budget:g} s has room for about {room} pairs of each case"
        if room < fewest:
            note += f", and fewer than {fewest} are not judged: unless a case breaks, it can only end unclear"
        say(note)
    return plan.within(room)
