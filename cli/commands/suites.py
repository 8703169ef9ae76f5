"""`pyrometer suites`: what there is to measure at once, what it is for, and what it may cost."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from common.text import plural
from runner.errors import BrokenEnvironment
from runner.suites import plan
from runner.suites.suite import Suite, is_glob, is_key
from runner.worker.case_key import CaseKey
from workflows.app_context import AppContext
from workflows.planning.select_cases import all_suites, expanded, refuse_unknown, suite_named

from ..context import context, in_one_sentence, say
from ..options import CaseFiles
from ..output.case_names import CaseName
from ..output.listings import Json, table, wide_console, workloads_of
from ..output.suite_page import page

app = typer.Typer(help="The suites: curated lists of cases with a time budget.", no_args_is_help=True)


@app.command("list")
def list_suites(
    as_json: Json = False,
    as_markdown: Annotated[
        bool,
        typer.Option(
            "--markdown", help="the built-in suites as Markdown: each case, why it is there, what it tests"
        ),
    ] = False,
) -> None:
    """Every suite: how many cases, what they may cost, and its budget."""
    if as_markdown:
        typer.echo(page(), nl=False)
        return
    with in_one_sentence():
        here = context()
        known = all_suites(here.settings)
        globs = any(is_glob(case) for suite in known.values() for case in suite.cases)
        offered = _offered(here, None) if globs else []
    if as_json:
        bodies = [_body(suite, _cases(suite, offered)) for suite in known.values()]
        typer.echo(json.dumps(bodies, indent=2))
        return
    rows = table("suite", "cases", "replicates", "estimate", "budget", "")
    for suite in known.values():
        planned = plan.replicates(_keys(_cases(suite, offered)), suite.replicates)
        seconds = sum(plan.estimate(one, suite.timing) for one in planned)
        counts = str(len(_cases(suite, offered))), str(suite.replicates)
        rows.add_row(suite.name, *counts, _minutes(seconds), _minutes(suite.budget_seconds), suite.summary)
    wide_console().print(rows)


@app.command("show")
def show_suite(name: str, cases_files: CaseFiles = None, as_json: Json = False) -> None:
    """The plan of one suite: its cases in order, what they may cost, and what each axis takes of it."""
    with in_one_sentence():
        here = context()
        suite = suite_named(here.settings, name)
        offered = _offered(here, cases_files, suite)
    cases = _cases(suite, offered)
    body = _body(suite, cases)
    if as_json:
        typer.echo(json.dumps(body, indent=2))
        return
    seconds, sessions = body["estimate_seconds"], len(body["sessions"])
    typer.echo(f"{name}: {suite.summary}")
    typer.echo(
        f"{plural(len(cases), 'case')} in {plural(sessions, 'session')}, "
        f"{plural(suite.replicates, 'replicate')} each: "
        f"about {_minutes(seconds)} of a budget of {_minutes(suite.budget_seconds)}\n"
    )
    rows = table("case", "estimate", "")
    for case, cost in zip(cases, body["case_seconds"], strict=True):
        note = "baseline, added for the techniques that follow" if case in suite.baselines else ""
        rows.add_row(CaseName(case), _minutes(cost) if cost is not None else "-", note)
    wide_console().print(rows)
    typer.echo("")
    rows = table("axis", "cases", "estimate", "share", "values")
    for share in body["axes"]:
        part = f"{100 * share['seconds'] / seconds:.0f} %"
        figures = str(share["cases"]), _minutes(share["seconds"]), part
        rows.add_row(share["axis"], *figures, ", ".join(share["values"]))
    wide_console().print(rows)
    typer.echo(
        "\nA case under several axes counts in each. Estimates are guesses from a machine with two cores."
    )


def _offered(here: AppContext, files: list[Path] | None, suite: Suite | None = None) -> list[str]:
    """Keys that globs stand for; checks a suite's cases on the way. Empty where nobody can be asked."""
    if suite and suite.name not in here.settings.suites:
        # Built in: without globs, and its cases are there.
        return []
    try:
        workloads = workloads_of(here, files)
    except BrokenEnvironment as error:
        say(f"note: {error}; globs are not expanded, and nobody has checked that the cases exist")
        return []
    if suite:
        refuse_unknown(suite, workloads, here.settings)
    return plan.offered(workloads)


def _cases(suite: Suite, offered: list[str]) -> list[str]:
    return list(dict.fromkeys(expanded(suite, offered))) if offered else list(suite.cases)


def _keys(cases: list[str]) -> list[str]:
    return [case for case in cases if is_key(case)]


def _body(suite: Suite, cases: list[str]) -> dict[str, Any]:
    """A suite as JSON; what a glob costs is None."""
    planned = plan.replicates(_keys(cases), suite.replicates)
    cost: dict[str, float] = {}
    for one in planned:
        cost[one.case] = cost.get(one.case, 0.0) + plan.estimate(one, suite.timing)
    return {
        "name": suite.name,
        "summary": suite.summary,
        "replicates": suite.replicates,
        "device": suite.device,
        "budget_seconds": suite.budget_seconds,
        "measure_seconds": suite.timing.measure_seconds,
        "estimate_seconds": sum(cost.values()),
        "cases": cases,
        "case_seconds": [cost.get(case) for case in cases],
        "baselines_added": sorted(suite.baselines),
        "sessions": list(dict.fromkeys(CaseKey.parse(case).workload for case in _keys(cases))),
        "axes": [
            {"axis": s.axis, "values": list(s.values), "cases": s.cases, "seconds": s.seconds}
            for s in plan.shares(planned, suite.timing)
        ],
    }


def _minutes(seconds: float) -> str:
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes >= 10 else f"{minutes:.1f} min"
