"""`pyrometer upgrade OLD NEW`: both measured together, pair by pair, and a verdict with its evidence."""

from dataclasses import replace
from typing import Annotated

import typer

from common.interrupts import Interrupts, interruptible
from runner.execution import harness as harnesses
from workflows.app_context import AppContext
from workflows.errors import UsageError
from workflows.ingest import store_pending
from workflows.load_run import judge_run
from workflows.measure import RunResult
from workflows.planning.plan_run import Chosen, Prepared, find_run, prepare_again, resumable
from workflows.planning.plan_upgrade import UpgradeRequest, pairs_plan, prepare_upgrade
from workflows.planning.policies import check_judged, choose_policy
from workflows.planning.resolve_environment import wanted
from workflows.planning.select_cases import choose_profile, choose_suite, refuse_too_many
from workflows.run_header import Header
from workflows.run_locally import alone, measured

from ..context import INTERRUPTED, context, in_one_sentence, refused_for_good, say
from ..options import Also, CaseFiles, Cases, ColdPairs, Confirms, Device, Pairs, Reports, RunId, finite
from ..output.upgrade_result import check_reports, conclude_upgrade

#: Exit codes of an upgrade; 2 and 130 are those of every command, 4 is what cannot be gone on with.
CODES = {"go": 0, "no-go": 1, "unclear": 3}


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
            return resume(context(noting=False, as_json=request.json), resumed, request, interrupts)
    if not (request.old and request.new):
        raise UsageError("an upgrade has two ends: pyrometer upgrade OLD NEW")
    try:
        return start(context(noting=False, as_json=request.json), request, interrupts)
    except KeyboardInterrupt:
        say("interrupted before anything was measured")
        return INTERRUPTED


def start(here: AppContext, request: UpgradeRequest, interrupts: Interrupts) -> int:
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
    with alone(here.reporter):
        prepared = prepare_upgrade(here, request, chosen, plan, policy)
        return _concluded(here, prepared, request, interrupts)


def resume(here: AppContext, run: str, request: UpgradeRequest, interrupts: Interrupts) -> int:
    """Go on with an upgrade that was interrupted.

    Raises CannotResume where that would be another one, and UsageError, RunnerError or JobError besides.
    """
    check_reports(request.reports)
    folder = find_run(here, run)
    store_pending(here)
    header, _, _ = resumable(folder)
    if header.comparison is None:
        raise UsageError(f"run {header.run} compares no environments: pyrometer run --resume {header.run}")
    with alone(here.reporter):
        return _concluded(here, prepare_again(here, folder), request, interrupts)


def _concluded(here: AppContext, prepared: Prepared, request: UpgradeRequest, interrupts: Interrupts) -> int:
    conclude = conclude_upgrade(request.reports, as_json=request.json)
    result = measured(here, prepared, interrupts, conclude)
    return exit_code(prepared.header, result)


def exit_code(header: Header, result: RunResult) -> int:
    """0 go, 1 no-go, 3 unclear, and 130 for an upgrade that was interrupted."""
    if result.state == "interrupted":
        return INTERRUPTED
    return CODES[judge_run(header, result).upgrade.decision]
