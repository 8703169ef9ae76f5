"""`pyrometer upgrade OLD NEW`: both measured together, pair by pair, and a verdict with its evidence."""

from typing import Annotated

import typer

from common.interrupts import Interrupts, interruptible
from workflows.app_context import AppContext
from workflows.errors import UsageError
from workflows.planning.plan_upgrade import UpgradeRequest
from workflows.run_locally import resume_upgrade, start_upgrade

from ..context import INTERRUPTED, context, in_one_sentence, refused_for_good, say
from ..options import Also, CaseFiles, Cases, ColdPairs, Confirms, Device, Pairs, Reports, RunId, finite
from ..output.upgrade_result import UpgradeConclusion, check_reports

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
    preset: Annotated[str | None, typer.Option(help="measurement preset [default: quiet]")] = None,
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
    )
    reports = tuple(report or ())
    with in_one_sentence(), interruptible() as interrupts:
        if resume is not None and request != UpgradeRequest():
            raise UsageError("--resume goes on with what was planned; it takes no other selection")
        if resume is None and not (request.old and request.new):
            raise UsageError("an upgrade has two ends: pyrometer upgrade OLD NEW")
        app = context(noting=False, as_json=as_json)
        check_reports(reports)
        conclusion = UpgradeConclusion(reports, as_json=as_json)
        raise typer.Exit(_run(app, request, resume, interrupts, conclusion))


def _run(
    app: AppContext,
    request: UpgradeRequest,
    resumed: str | None,
    interrupts: Interrupts,
    conclusion: UpgradeConclusion,
) -> int:
    """Begin or go on with an upgrade; answers the exit code. Raises UsageError, RunnerError or JobError."""
    if resumed is not None:
        with refused_for_good():
            result = resume_upgrade(app, resumed, interrupts, conclusion)
    else:
        try:
            result = start_upgrade(app, request, interrupts, conclusion)
        except KeyboardInterrupt:
            say("interrupted before anything was measured")
            return INTERRUPTED
    return INTERRUPTED if result.state == "interrupted" else CODES[conclusion.decision]
