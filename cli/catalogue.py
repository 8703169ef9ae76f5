"""`pyrometer cases|suites|environments`: what there is to measure."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from configuration.nearest import unknown
from runner import environment as environment_room
from runner import harness, plan
from runner.environment import Environment
from runner.errors import BrokenEnvironment

from .context import Context, UsageError, context, in_one_sentence
from .selection import all_suites, choose_environment, choose_profile

cases = typer.Typer(help="The cases on offer.", no_args_is_help=True)
suites = typer.Typer(help="The suites: curated lists of cases with a time budget.", no_args_is_help=True)
environments = typer.Typer(help="The environments that can be measured.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="JSON on stdout")]
CaseFiles = Annotated[list[Path] | None, typer.Option("--cases", help="a Python file with cases of your own")]


@cases.command("list")
def list_cases(cases_files: CaseFiles = None, as_json: Json = False) -> None:
    """Every workload with its phases and the parameters it is offered with."""
    with in_one_sentence():
        described = _describe(context(), cases_files)
    if as_json:
        typer.echo(json.dumps(list(described.workloads), indent=2))
        return
    table = _table("case", "phases", "parameters", "")
    for workload in described.workloads:
        grid = ", ".join(f"{k}={'|'.join(map(str, v))}" for k, v in workload["grid"].items())
        table.add_row(workload["name"], ", ".join(workload["phases"]), grid, workload["summary"])
    Console().print(table)


@cases.command("show")
def show_case(name: str, cases_files: CaseFiles = None, as_json: Json = False) -> None:
    """One workload: the keys it is offered with, and the suites that measure it."""
    with in_one_sentence():
        here = context()
        described = _describe(here, cases_files)
        known = [str(workload["name"]) for workload in described.workloads]
        if name not in known:
            raise UsageError(unknown("case", name, known))
    keys = [key for key in plan.offered(described.workloads) if plan.matches(key, name)]
    listed = {
        s.name: [c for c in s.cases if plan.matches(c, name)] for s in all_suites(here.settings).values()
    }
    if as_json:
        typer.echo(json.dumps({"name": name, "offered": keys, "suites": listed}, indent=2))
        return
    typer.echo("\n".join(keys))
    for suite, measured in listed.items():
        for key in measured:
            typer.echo(f"in suite {suite}: {key}")


@suites.command("list")
def list_suites(as_json: Json = False) -> None:
    """Every suite with its budget."""
    with in_one_sentence():
        known = all_suites(context().settings)
    if as_json:
        typer.echo(json.dumps([_suite(name, known) for name in sorted(known)], indent=2))
        return
    table = _table("suite", "cases", "replicates", "budget", "")
    for name in sorted(known):
        suite = known[name]
        budget = f"{suite.budget_seconds / 60:.0f} min"
        table.add_row(name, str(len(suite.cases)), str(suite.replicates), budget, suite.summary)
    Console().print(table)


@suites.command("show")
def show_suite(name: str, as_json: Json = False) -> None:
    """The cases of one suite."""
    with in_one_sentence():
        known = all_suites(context().settings)
        if name not in known:
            raise UsageError(unknown("suite", name, known))
    if as_json:
        typer.echo(json.dumps(_suite(name, known), indent=2))
        return
    typer.echo("\n".join(known[name].cases))


@environments.command("list")
def list_environments(as_json: Json = False) -> None:
    """Every environment as it describes itself, or what is wrong with it."""
    with in_one_sentence():
        here = context()
        built = harness.build(here.places.data_dir / "harness")
        profile = choose_profile(here.settings, None)
        rows: list[dict[str, Any]] = []
        for name, wanted in here.settings.environments.items():
            row: dict[str, Any] = {"name": name, "python": str(wanted.python)}
            try:
                facts = environment_room.describe(name, wanted.python, built, profile).facts
                row |= {k: facts[k] for k in ("torch", "cuda", "fingerprint", "torch_git")}
            except BrokenEnvironment as error:
                row["broken"] = str(error)
            rows.append(row)
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    table = _table("environment", "torch", "CUDA", "interpreter")
    for row in rows:
        table.add_row(row["name"], row.get("torch") or row["broken"], row.get("cuda") or "-", row["python"])
    Console().print(table)


def _suite(name: str, known: dict[str, Any]) -> dict[str, Any]:
    suite = known[name]
    return {
        "name": name,
        "cases": list(suite.cases),
        "replicates": suite.replicates,
        "budget_seconds": suite.budget_seconds,
        "summary": suite.summary,
    }


def _describe(here: Context, files: list[Path] | None) -> Environment:
    built = harness.build(here.places.data_dir / "harness", files or ())
    name, python = choose_environment(here.settings, None, None)
    described = environment_room.describe(name, python, built, choose_profile(here.settings, None))
    for module, reason in described.broken_cases.items():
        raise UsageError(f"{module}.py cannot be loaded: {reason}")
    return described


def _table(*headings: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table
