"""`pyrometer run`: measure this machine."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from common.interrupts import Interrupts, interruptible
from configuration.settings import DEFAULT_ENVIRONMENT
from runner import environment as environments
from runner.execution import harness as harnesses
from runner.multi_node import nodes as multi_node
from runner.suites import plan
from runner.suites.composing import with_baselines
from workflows.app_context import AppContext
from workflows.errors import NothingToMeasure, UsageError
from workflows.ingest import store_pending
from workflows.load_run import Told
from workflows.measure import RunResult
from workflows.planning.plan_run import (
    Chosen,
    Prepared,
    RunPlan,
    ask,
    find_run,
    prepare,
    prepare_again,
    resumable,
    timing_of,
)
from workflows.planning.resolve_environment import Ready, choose_environment, wanted
from workflows.planning.select_cases import (
    CHOSEN,
    choose_cases,
    choose_profile,
    choose_suite,
    observed,
    one_each,
    refuse_long,
    refuse_too_many,
    spelled,
    tracing_suite,
)
from workflows.run_header import Header
from workflows.run_locally import Conclude, alone, measured

from ..context import FAILED, INTERRUPTED, context, in_one_sentence, refused_for_good, say
from ..options import CaseFiles, Cases, Device, RunId, finite
from ..output.reporter import concluding
from ..output.upgrade_result import UpgradeConclusion
from .report import print_told

HELP = """Measure this machine with a suite and keep every number.

\b
pyrometer run                                  suite `smoke`, environment `default`
pyrometer run --suite cpu --replicates 5
pyrometer run --case resnet50                  what `smoke` has of a workload, or its smallest case
pyrometer run --case 'gpt2*' --budget 600      all cases that a glob means, as far as ten minutes go
pyrometer run --cases my_cases.py              cases of your own (see CONTRIBUTING.md)
pyrometer run --python ~/venv/bin/python       measure the PyTorch of an interpreter you have
pyrometer run --resume latest                  go on with what was interrupted

Ctrl-C ends it cleanly: what is measured stays, and the command to go on with is printed.
Exit code: 0 all went well or was skipped, 1 some case did not, 2 the call makes no sense, 130 interrupted;
with --resume also 4, where that run can never be gone on with.
"""


#: Names the file of `--nodes`; the job of a fleet sets it.
NODES_VARIABLE = "PYROMETER_NODES_FILE"


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
    run_id: str | None = None
    nodes: Path | None = None
    yes: bool = False


def run(
    suite: Annotated[
        str | None, typer.Option("--suite", "-s", help="suite to measure [default: smoke]")
    ] = None,
    environment: Annotated[
        str | None,
        typer.Option("--environment", "-e", help="a name, or a version, built if need be [default: default]"),
    ] = None,
    python: Annotated[Path | None, typer.Option(help="measure this interpreter's PyTorch instead")] = None,
    case: Cases = None,
    cases: CaseFiles = None,
    profile: Annotated[str | None, typer.Option(help="measurement profile [default: quiet]")] = None,
    device: Device = None,
    replicates: Annotated[int | None, typer.Option(min=1, help="fresh processes per case")] = None,
    budget: Annotated[
        float | None, typer.Option(min=1, callback=finite, help="seconds the whole run may take")
    ] = None,
    deadline: Annotated[
        float | None, typer.Option(min=1, callback=finite, help="seconds one replicate may take")
    ] = None,
    resume: Annotated[str | None, typer.Option(help="go on with this run: its id, or `latest`")] = None,
    nodes: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar=NODES_VARIABLE,
            help="the nodes of this job, for cases with axis nodes; a fleet sets it",
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="measure chosen cases however long they take")
    ] = False,
    run_id: RunId = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object per line on stdout")] = False,
) -> None:
    """Measure this machine (the help text is above, where its layout survives)."""
    request = RunRequest(
        suite=suite,
        environment=environment,
        python=python,
        profile=profile,
        device=device,
        cases=tuple(case or ()),
        case_files=tuple(cases or ()),
        replicates=replicates,
        budget=budget,
        deadline=deadline,
        run_id=run_id,
        nodes=nodes,
        yes=yes,
        json=as_json,
    )
    with in_one_sentence(), interruptible() as interrupts:
        raise typer.Exit(_run(request, resume, interrupts))


def _run(request: RunRequest, resumed: str | None, interrupts: Interrupts) -> int:
    if resumed is not None and request != RunRequest(json=request.json, nodes=request.nodes):
        raise UsageError("--resume goes on with what was planned; it takes no other selection")
    if resumed is not None:
        with refused_for_good():
            return exit_code(
                lambda: resume(context(noting=False, as_json=request.json), resumed, request, interrupts)
            )
    return exit_code(lambda: start(context(noting=False, as_json=request.json), request, interrupts))


def start(here: AppContext, request: RunRequest, interrupts: Interrupts) -> RunResult:
    """Plan and measure a new run; raises UsageError, RunnerError or JobError with one sentence."""
    # What can be refused at once is not refused after a wait for another run's end.
    nodes = multi_node.read(request.nodes) if request.nodes else ()
    chosen = _choose(here, request)
    store_pending(here)
    with alone(here.reporter):
        prepared = _prepare(here, request, chosen, nodes)
        return measured(here, prepared, interrupts, _conclude(here, request.json))


def resume(here: AppContext, run: str, request: RunRequest, interrupts: Interrupts) -> RunResult:
    """Go on with a run that was interrupted or killed.

    Raises CannotResume where that would be another run, and UsageError, RunnerError or JobError besides.
    """
    json = request.json
    folder = find_run(here, run)
    # First, for a run that is complete may still wait to be stored.
    store_pending(here)
    resumable(folder)
    nodes = multi_node.read(request.nodes) if request.nodes else ()
    with alone(here.reporter):
        prepared = prepare_again(here, folder, nodes)
        conclude = _conclude(here, json)
        if prepared.header.comparison is not None:
            conclude = UpgradeConclusion(as_json=json)
        return measured(here, prepared, interrupts, conclude)


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


def _conclude(here: AppContext, as_json: bool) -> Conclude:
    def show(console: Console, header: Header, result: RunResult) -> None:
        if not as_json:
            print_told(console, Told.of(header, result), here.runs / header.run)

    return concluding(show, as_json=as_json)


def _choose(here: AppContext, request: RunRequest) -> Chosen:
    settings = here.settings
    profile = choose_profile(settings, request.profile)
    if request.trace_steps:
        suite = tracing_suite(request.trace_steps)
    else:
        suite = observed(choose_suite(settings, request.suite, list(request.cases), bool(request.case_files)))
    # How many cases the patterns leave is known only when the environment has been asked.
    least = 1 if request.cases else max(1, len(suite.cases))
    refuse_too_many(least, request.replicates or suite.replicates)
    # Behind what is refused at once, for an environment that is not there yet is built.
    _check_environment(here, request)
    harness = harnesses.build(here.places.data_dir / "harness", request.case_files)
    return Chosen(profile, suite, harness)


def _check_environment(here: AppContext, request: RunRequest) -> None:
    """Refuse what means no environment; what has to be built waits until nothing else is measured."""
    if request.python is not None:
        environments.check_interpreter(*choose_environment(here, request.environment, request.python))
        return
    named = DEFAULT_ENVIRONMENT if request.environment is None else request.environment
    meant = wanted(here.settings, named)
    if meant.python is not None:
        environments.check_interpreter(meant.name, meant.python)


def _prepare(
    here: AppContext, request: RunRequest, chosen: Chosen, nodes: tuple[multi_node.Node, ...]
) -> Prepared:
    settings, suite = here.settings, chosen.suite
    asked = ask(chosen, [Ready(*choose_environment(here, request.environment, request.python))])
    (described,) = asked.environments
    patterns = [spelled(pattern) for pattern in request.cases]
    cases = choose_cases(suite, patterns, described, settings)
    if not cases:
        raise NothingToMeasure("no case is selected")
    cases = one_each(cases, patterns) if request.trace_steps else _beside_baselines(cases)
    timing = timing_of(suite, request.deadline, settings)
    replicates = request.replicates or suite.replicates
    refuse_too_many(len(cases), replicates)
    planned = plan.replicates(cases, replicates, described.fingerprint)
    if suite.name == CHOSEN and not (request.yes or request.budget or request.run_id):
        refuse_long(patterns, planned, timing)
    budget, device = request.budget or suite.budget_seconds, request.device or suite.device
    return prepare(here, chosen, asked, RunPlan(planned, timing, budget, device), request.run_id, nodes)


def _beside_baselines(cases: list[str]) -> list[str]:
    """The cases, each technique after its baseline: without that, nobody could tell what it brings."""
    beside, added = with_baselines(cases)
    if added:
        say(f"note: measured as well, for a technique is set against it: {', '.join(sorted(added))}")
    return list(beside)
