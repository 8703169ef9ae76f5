"""What the commands about cases, suites and environments share: options, a table, the cases on offer."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from runner import environment as environment_room
from runner.execution import harness
from runner.suites import catalogue
from workflows.app_context import AppContext
from workflows.errors import UsageError
from workflows.planning.resolve_environment import choose_environment
from workflows.planning.select_cases import choose_preset

from ..streams import stdout_width

Json = Annotated[bool, typer.Option("--json", help="JSON on stdout")]

#: No database holds a larger number.
LARGEST = 2**63 - 1


def workloads_of(here: AppContext, files: list[Path] | None) -> Sequence[Mapping[str, Any]]:
    """The cases on offer; those of `files` are asked of the default environment, which has to import them.

    Raises UsageError for a file of cases that cannot be loaded, BrokenEnvironment where there is no PyTorch.
    """
    if not files:
        return catalogue.workloads()
    built = harness.build(here.places.data_dir / "harness", files)
    name, python = choose_environment(here, None, may_build=False)
    environment = environment_room.describe(name, python, built, choose_preset(here.settings, None))
    for module, reason in environment.broken_cases.items():
        raise UsageError(f"{module}.py cannot be loaded: {reason}")
    return environment.workloads


def wide_console() -> Console:
    """For tables of case keys, as wide as `stdout_width` says."""
    return Console(file=sys.stdout, highlight=False, width=stdout_width())


def table(*headings: str) -> Table:
    """A plain table with these headings."""
    made = Table(box=None, header_style="bold", pad_edge=False)
    for heading in headings:
        made.add_column(heading, overflow="fold")
    return made
