"""Where runs come from: which ones Pyrometer measured, and what is known of those that it did not."""

from collections.abc import Mapping
from typing import Any

from interchange.formats import Sourced, title
from records.kinds import RunSource
from records.runs import Run

#: Facts in which importers say what they read, the plainest first.
_SOURCES = ("file", "experiment", "benchmark")


def teller(run: Sourced) -> str:
    """Who says what the numbers of a run mean, if it is not Pyrometer; empty if it is."""
    if run.source == RunSource.IMPORTED:
        return title(run)
    return "the script" if run.source == RunSource.SUBMITTED else ""


def source(run: Run) -> str:
    """What was imported, as a file's name; empty where the run does not say so."""
    return next((text for name in _SOURCES if isinstance(text := run.facts.get(name), str) and text), "")


def said_elsewhere(run: Run, facts: Mapping[str, Any]) -> dict[str, Any]:
    """`facts` of a run without the one that its title says in better words."""
    own = run.source == RunSource.MEASURED
    return {name: fact for name, fact in facts.items() if own or name != "imported_from"}
