"""Where runs come from: which ones Pyrometer measured, and what is known of those that it did not."""

from collections.abc import Mapping, Sequence
from typing import Any

from interchange.formats import came_from
from records.runs import Run, RunSummary

#: Facts in which importers say what they read, the plainest first.
_SOURCES = ("file", "experiment", "benchmark")
_IMPORTED = "imported from "


def measured(run_id: str) -> bool:
    """Whether Pyrometer measured the run."""
    return not came_from(run_id)


def imported(run_id: str) -> bool:
    """Whether the run was read from a file of another tool."""
    return came_from(run_id).startswith(_IMPORTED)


def teller(run_id: str) -> str:
    """Who says what the numbers of a run mean, if it is not Pyrometer; empty if it is."""
    phrase = came_from(run_id)
    return phrase.removeprefix(_IMPORTED) if imported(run_id) else "the script" if phrase else ""


def source(run: Run) -> str:
    """What was imported, as a file's name; empty where the run does not say so."""
    return next((told for name in _SOURCES if isinstance(told := run.facts.get(name), str) and told), "")


def to_search(runs: Sequence[RunSummary], own: Sequence[RunSummary]) -> Sequence[RunSummary]:
    """The runs in which what failed is looked for: `own`, or without any those of `runs` not imported."""
    return own or [run for run in runs if not imported(run.id)]


def said_elsewhere(run: Run, facts: Mapping[str, Any]) -> dict[str, Any]:
    """`facts` of a run without the one that its title says in better words."""
    return {name: fact for name, fact in facts.items() if name != "imported_from" or measured(run.id)}
