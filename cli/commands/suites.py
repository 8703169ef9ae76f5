"""`pyrometer cases` and `pyrometer suites`: list what can be measured."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from common.text import key_matches, plural
from configuration.suggestions import unknown
from records.references import Claim
from runner import environment as environment_room
from runner.errors import BrokenEnvironment
from runner.execution import harness
from runner.suites import plan
from runner.suites.references import all_claims, claims_for
from runner.suites.suite import Suite, SuiteBlock, built_in, is_glob, is_key, workloads
from runner.worker.case import FAMILIES
from runner.worker.case_key import AXES, CaseKey
from workflows.app_context import AppContext
from workflows.errors import UsageError
from workflows.planning.resolve_environment import choose_environment
from workflows.planning.select_cases import (
    all_suites,
    choose_preset,
    expand_globs,
    refuse_unknown,
    suite_named,
)

from ..context import context, in_one_sentence, say
from ..options import CaseFiles, Json
from ..output.console import CaseName, report_console, table

#: Below this width the list of workloads leaves out the columns family and summary; `cases show` prints them.
_WIDE = 120

cases = typer.Typer(help="List the cases that can be measured.", no_args_is_help=True)


@cases.command("list")
def list_cases(cases_files: CaseFiles = None, as_json: Json = False) -> None:
    """List every workload by family, with its phases and default parameters."""
    with in_one_sentence():
        workloads = workloads_of(context(), cases_files)
    if as_json:
        typer.echo(json.dumps(list(workloads), indent=2))
        return
    console = report_console()
    wide = console.width >= _WIDE
    rows = table(*(("family",) if wide else ()), "case", "phases", "parameters", *(("",) if wide else ()))
    order = {family: place for place, family in enumerate(FAMILIES)}
    by_family = sorted(workloads, key=lambda one: (order.get(one["family"], len(order)), str(one["name"])))
    for family, members in groupby(by_family, key=lambda one: str(one["family"])):
        for place, one in enumerate(members):
            cells = one["name"], ", ".join(one["phases"]), _parameters(one)
            rows.add_row(*(("" if place else family or "yours", *cells, one["summary"]) if wide else cells))
    console.print(rows)


def _parameters(workload: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={'|'.join(map(str, values))}" for name, values in workload["grid"].items())


@cases.command("show")
def show_case(name: str, cases_files: CaseFiles = None, as_json: Json = False) -> None:
    """Show one workload: its case keys, the suites that measure it, published claims about it."""
    with in_one_sentence():
        app_context = context()
        workloads = workloads_of(app_context, cases_files)
        names = [str(workload["name"]) for workload in workloads]
        if name not in names:
            raise UsageError(unknown("case", name, names))
        known_suites = all_suites(app_context.settings, tolerant=True)
    keys = [key for key in plan.eager_cases(workloads) if key_matches(key, name)]
    listed = {s.name: [c for c in s.cases if key_matches(c, name)] for s in known_suites.values()}
    claims = {case: claims_for(case) for case in dict.fromkeys(c for cases in listed.values() for c in cases)}
    if as_json:
        claims_by_case = {case: [asdict(claim) for claim in found] for case, found in claims.items() if found}
        body = {"name": name, "offered": keys, "suites": listed, "claims": claims_by_case}
        typer.echo(json.dumps(body, indent=2))
        return
    (workload,) = (one for one in workloads if one["name"] == name)
    typer.echo(f"{name}: {workload['summary']}")
    if workload["family"]:
        typer.echo(f"family: {workload['family']}")
    if workload["guards"]:
        typer.echo(f"guards against: {workload['guards']}")
    typer.echo(f"phases: {', '.join(workload['phases'])}; parameters: {_parameters(workload) or 'none'}")
    if any(listed.values()):
        report_console().print(_measured_by(listed))
    about: dict[Claim, dict[str, None]] = {}
    for case, found in claims.items():
        for claim in found:
            about.setdefault(claim, {})[case.rsplit("/", 1)[1]] = None
    for claim, techniques in about.items():
        origin = f"{claim.source}{claim.url and f', {claim.url}'}"
        typer.echo(f"claimed of {', '.join(techniques)}: {claim.statement} (on: {claim.hardware}; {origin})")
    example = CaseKey.parse(keys[0]).with_technique(compile="default", precision="amp-bf16")
    typer.echo(f"with techniques, for example: {example}")
    typer.echo("`pyrometer cases techniques` lists them all")


def _measured_by(listed: Mapping[str, Sequence[str]]) -> Table:
    """The suites that measure the techniques of a workload: a row for techniques with the same suites."""
    suites: dict[str, list[str]] = {}
    for suite, cases in listed.items():
        for case in dict.fromkeys(cases):
            suites.setdefault(case, []).append(suite)
    by_suites: dict[tuple[str, str], list[str]] = {}
    for case, names in suites.items():
        measured, _, technique = case.rpartition("/")
        by_suites.setdefault((measured, ", ".join(names)), []).append(technique)
    rows = table("measured", "in suites", "techniques")
    for (measured, names), techniques in sorted(by_suites.items()):
        rows.add_row(CaseName(measured), names, "; ".join(techniques))
    return rows


@cases.command("techniques")
def list_techniques(as_json: Json = False) -> None:
    """List the axes of a technique (the last part of a case key) and their values."""
    if as_json:
        typer.echo(json.dumps([asdict(axis) for axis in AXES.values()], indent=2))
        return
    rows = table("axis", "values (the first is the default, never spelled)", "")
    for axis in AXES.values():
        words = dict.fromkeys((axis.default, *axis.values))
        rows.add_row(axis.name, ", ".join((*words, *(("a number",) if axis.counts else ()))), axis.meaning)
    report_console().print(rows)


app = typer.Typer(help="List the suites: curated lists of cases with a time budget.", no_args_is_help=True)


@app.command("list")
def list_suites(
    as_json: Json = False,
    as_markdown: Annotated[
        bool,
        typer.Option(
            "--markdown",
            help="the built-in suites as Markdown: each case, its reason, the claim that it tests",
        ),
    ] = False,
) -> None:
    """List every suite: number of cases, estimated duration, budget."""
    if as_markdown:
        typer.echo(page(), nl=False)
        return
    with in_one_sentence():
        app_context = context()
        suites_by_name = all_suites(app_context.settings)
        globs = any(is_glob(case) for suite in suites_by_name.values() for case in suite.cases)
        offered = _available_cases(app_context, None) if globs else []
    if as_json:
        bodies = [_body(suite, _cases(suite, offered)) for suite in suites_by_name.values()]
        typer.echo(json.dumps(bodies, indent=2))
        return
    rows = table("suite", "cases", "replicates", "estimate", "budget", "")
    for suite in suites_by_name.values():
        planned = plan.replicates(_keys(_cases(suite, offered)), suite.replicates)
        seconds = sum(plan.estimate(one, suite.timing, on_cuda=_on_cuda(suite)) for one in planned)
        counts = str(len(_cases(suite, offered))), str(suite.replicates)
        rows.add_row(suite.name, *counts, _minutes(seconds), _minutes(suite.budget_seconds), suite.summary)
    report_console().print(rows)


@app.command("show")
def show_suite(name: str, cases_files: CaseFiles = None, as_json: Json = False) -> None:
    """Show the plan of one suite: its cases in order, their estimated durations, the share of each axis."""
    with in_one_sentence():
        app_context = context()
        suite = suite_named(app_context.settings, name)
        offered = _available_cases(app_context, cases_files, suite)
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
    report_console().print(rows)
    typer.echo("")
    rows = table("axis", "cases", "estimate", "share", "values")
    for share in body["axes"]:
        part = f"{100 * share['seconds'] / seconds:.0f} %"
        figures = str(share["cases"]), _minutes(share["seconds"]), part
        rows.add_row(share["axis"], *figures, ", ".join(share["values"]))
    report_console().print(rows)
    source = "an H100 and, for what was not measured there, " if _on_cuda(suite) else ""
    typer.echo(
        f"\nA case under several axes counts in each. Estimates come from {source}a machine with two cores."
    )
    if left_out := body["families_left_out"]:
        typer.echo(f"It leaves out these families of cases: {', '.join(left_out)}.")


def _available_cases(
    app_context: AppContext, files: list[Path] | None, suite: Suite | None = None
) -> list[str]:
    """The keys that globs match; also checks the cases of a suite. Empty if no environment can be run."""
    if suite and suite.name not in app_context.settings.suites:
        # A built-in suite has no globs, and its cases exist.
        return []
    try:
        workloads = workloads_of(app_context, files)
    except BrokenEnvironment as error:
        say(f"note: {error}; globs are not expanded, and the cases are not checked")
        return []
    if suite:
        refuse_unknown(suite, workloads, app_context.settings)
    return plan.eager_cases(workloads)


def _cases(suite: Suite, offered: list[str]) -> list[str]:
    return list(dict.fromkeys(expand_globs(suite, offered))) if offered else list(suite.cases)


def _on_cuda(suite: Suite) -> bool:
    """Whether the suite measures a GPU on every machine."""
    return suite.device == "cuda"


def _keys(cases: list[str]) -> list[str]:
    return [case for case in cases if is_key(case)]


def _body(suite: Suite, cases: list[str]) -> dict[str, Any]:
    """A suite as JSON; the duration of a glob is None."""
    planned = plan.replicates(_keys(cases), suite.replicates)
    cost: dict[str, float] = {}
    for one in planned:
        cost[one.case] = cost.get(one.case, 0.0) + plan.estimate(one, suite.timing, on_cuda=_on_cuda(suite))
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
        "families_left_out": _families_left_out(cases),
        "sessions": list(dict.fromkeys(CaseKey.parse(case).workload for case in _keys(cases))),
        "axes": [
            {"axis": s.axis, "values": list(s.values), "cases": s.cases, "seconds": s.seconds}
            for s in plan.shares(planned, suite.timing, on_cuda=_on_cuda(suite))
        ],
    }


def _families_left_out(cases: Iterable[str]) -> list[str]:
    """The families of built-in cases without one of these cases."""
    names = {case.partition("/")[0] for case in cases}
    covered = {one["family"] for one in workloads() if one["name"] in names}
    return [family for family in FAMILIES if family not in covered]


def _minutes(seconds: float) -> str:
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes >= 10 else f"{minutes:.1f} min"


def overview() -> str:
    """The built-in suites as a table: the generated part of docs/suite.md."""
    lines = ["| suite | what it answers | cases | budget |", "|---|---|---|---|"]
    for suite in built_in().values():
        figures = f"{len(suite.cases)} | {suite.budget_seconds / 60:.0f} min"
        lines.append(f"| `{suite.name}` | {suite.summary} | {figures} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The suites with their cases, then the claims, as Markdown."""
    suites = "\n".join(_suite(suite) for suite in built_in().values())
    return f"{suites}\n{_claims()}"


def _suite(suite: Suite) -> str:
    head = (
        f"## `{suite.name}`\n\n{suite.summary[:1].upper()}{suite.summary[1:]}. "
        f"{len(suite.cases)} cases, {suite.replicates} replicates each, "
        f"a budget of {suite.budget_seconds / 60:.0f} minutes, "
        f"{suite.timing.measure_seconds:g} s measured in each process.\n"
    )
    if suite.name == "full":
        # Its blocks are listed under the suites above.
        return head
    lines = ["", "| workload | techniques | why it is there | claims |", "|---|---|---|---|"]
    for block in suite.blocks:
        lines.extend(_rows(block, suite))
    return head + "\n".join(lines) + "\n"


def _rows(block: SuiteBlock, suite: Suite) -> Iterable[str]:
    """One row for each workload of a block."""
    techniques: dict[str, list[str]] = {}
    claims: dict[str, dict[int, None]] = {}
    for case in block.cases:
        key = CaseKey.parse(case)
        listed = techniques.setdefault(key.workload, [])
        if not listed and (baseline := str(key.eager)) in suite.baselines and baseline not in block.cases:
            listed.append("`eager` (baseline, added)")
        listed.append(f"`{case.rsplit('/', 1)[1]}`")
        claims.setdefault(key.workload, {}).update(dict.fromkeys(_number(one) for one in claims_for(case)))
    for workload, listed in techniques.items():
        tested = ", ".join(map(str, sorted(claims[workload]))) or "-"
        yield f"| `{workload}` | {'<br>'.join(listed)} | {block.why} | {tested} |"


def _claims() -> str:
    lines = [
        "## Claims\n",
        "Published claims and their sources. Pyrometer prints its own measurements next to them.\n",
        "| no. | claim | compared | hardware | source |",
        "|---|---|---|---|---|",
    ]
    for claim in all_claims():
        source = f"[{claim.source}]({claim.url})" if claim.url else claim.source
        compared = f"`{claim.metric}`, {claim.kind}"
        lines.append(f"| {_number(claim)} | {claim.statement} | {compared} | {claim.hardware} | {source} |")
    return "\n".join(lines) + "\n"


def _number(claim: Claim) -> int:
    return all_claims().index(claim) + 1


def workloads_of(app_context: AppContext, files: list[Path] | None) -> Sequence[Mapping[str, Any]]:
    """The available cases; those of `files` are listed by the default environment, which imports them.

    Raises UsageError for a file of cases that cannot be loaded, BrokenEnvironment without a PyTorch.
    """
    if not files:
        return workloads()
    built = harness.build(app_context.places.data_dir / "harness", files)
    name, python = choose_environment(app_context, None, may_build=False)
    environment = environment_room.describe(name, python, built, choose_preset(app_context.settings, None))
    for module, reason in environment.broken_cases.items():
        raise UsageError(f"{module}.py cannot be loaded: {reason}")
    return environment.workloads
