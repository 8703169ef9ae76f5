"""`pyrometer cases`: what there is to measure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import typer
from rich.table import Table

from configuration.suggestions import unknown
from records.references import Claim
from runner.suites import plan
from runner.suites.references import claims_for
from runner.worker.case_key import AXES, CaseKey
from workflows.errors import UsageError
from workflows.planning.select_cases import all_suites

from ..context import context, in_one_sentence
from ..options import CaseFiles
from ..output.case_names import CaseName
from ..output.listings import Json, table, wide_console, workloads_of

#: Below this many columns a list of workloads leaves out what each is; `cases show` says it.
_WIDE = 120

cases = typer.Typer(help="The cases on offer.", no_args_is_help=True)


@cases.command("list")
def list_cases(cases_files: CaseFiles = None, as_json: Json = False) -> None:
    """Every workload with its phases and the parameters it is offered with."""
    with in_one_sentence():
        workloads = workloads_of(context(), cases_files)
    if as_json:
        typer.echo(json.dumps(list(workloads), indent=2))
        return
    console = wide_console()
    rows = table("case", "phases", "parameters", *(("",) if console.width >= _WIDE else ()))
    for one in sorted(workloads, key=lambda workload: str(workload["name"])):
        cells = (one["name"], ", ".join(one["phases"]), _parameters(one), one["summary"])
        rows.add_row(*cells[: len(rows.columns)])
    console.print(rows)


def _parameters(workload: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={'|'.join(map(str, values))}" for name, values in workload["grid"].items())


@cases.command("show")
def show_case(name: str, cases_files: CaseFiles = None, as_json: Json = False) -> None:
    """One workload: the keys it is offered with, the suites that measure it, what is claimed about it."""
    with in_one_sentence():
        here = context()
        workloads = workloads_of(here, cases_files)
        known = [str(workload["name"]) for workload in workloads]
        if name not in known:
            raise UsageError(unknown("case", name, known))
        known_suites = all_suites(here.settings, tolerant=True)
    keys = [key for key in plan.offered(workloads) if plan.matches(key, name)]
    listed = {s.name: [c for c in s.cases if plan.matches(c, name)] for s in known_suites.values()}
    claims = {case: claims_for(case) for case in dict.fromkeys(c for cases in listed.values() for c in cases)}
    if as_json:
        said = {case: [asdict(claim) for claim in found] for case, found in claims.items() if found}
        body = {"name": name, "offered": keys, "suites": listed, "claims": said}
        typer.echo(json.dumps(body, indent=2))
        return
    (workload,) = (one for one in workloads if one["name"] == name)
    typer.echo(f"{name}: {workload['summary']}")
    typer.echo(f"phases: {', '.join(workload['phases'])}; parameters: {_parameters(workload) or 'none'}")
    if any(listed.values()):
        wide_console().print(_measured_by(listed))
    about: dict[Claim, dict[str, None]] = {}
    for case, found in claims.items():
        for claim in found:
            about.setdefault(claim, {})[case.rsplit("/", 1)[1]] = None
    for claim, techniques in about.items():
        origin = f"{claim.source}{claim.url and f', {claim.url}'}"
        typer.echo(f"claimed of {', '.join(techniques)}: {claim.statement} (on: {claim.hardware}; {origin})")
    example = CaseKey.parse(keys[0]).under(compile="default", precision="amp-bf16")
    typer.echo(f"with techniques, for example: {example}")
    typer.echo("`pyrometer cases techniques` lists them all")


def _measured_by(listed: Mapping[str, Sequence[str]]) -> Table:
    """Which suites measure which techniques of a workload: a row for those that the same suites measure."""
    suites: dict[str, list[str]] = {}
    for suite, cases in listed.items():
        for case in dict.fromkeys(cases):
            suites.setdefault(case, []).append(suite)
    together: dict[tuple[str, str], list[str]] = {}
    for case, names in suites.items():
        measured, _, technique = case.rpartition("/")
        together.setdefault((measured, ", ".join(names)), []).append(technique)
    rows = table("measured", "in suites", "techniques")
    for (measured, names), techniques in sorted(together.items()):
        rows.add_row(CaseName(measured), names, "; ".join(techniques))
    return rows


@cases.command("techniques")
def list_techniques(as_json: Json = False) -> None:
    """What can stand in the last part of a case key: the axes of a technique and their values."""
    if as_json:
        typer.echo(json.dumps([asdict(axis) for axis in AXES.values()], indent=2))
        return
    rows = table("axis", "values (the first is the default, never spelled)", "")
    for axis in AXES.values():
        words = dict.fromkeys((axis.default, *axis.values))
        rows.add_row(axis.name, ", ".join((*words, *(("a number",) if axis.counts else ()))), axis.meaning)
    wide_console().print(rows)
