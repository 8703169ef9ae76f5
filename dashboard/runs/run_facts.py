"""The facts of a run: its machine, environments and preset, as panels and as a CSV file."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pandas as pd
import streamlit as st

from analysis.decision.comparison import COMPARED, DECIDED
from dashboard.components import markup, parts
from dashboard.components.tables import untitled_facts
from dashboard.runs import capabilities
from records.kinds import RunSource
from records.runs import Run

#: Facts that are shown elsewhere: the telemetry of the machine, and what an upgrade is judged by.
_ELSEWHERE = (capabilities.FACT, COMPARED, DECIDED)

_LARGEST = 2**63 - 1


def section(run: Run) -> None:
    """The command that made a run, and all it knows of itself."""
    parts.heading("Facts", lambda: frame(run), f"facts-{run.id}.csv")
    # The command of a submitted run cannot be typed again.
    if run.source == RunSource.MEASURED or run.source == RunSource.IMPORTED:
        parts.code(run.command)
    parts.html(panels(run))
    if tables_html := capabilities.tables(run):
        with st.expander("Telemetry of GPUs and CPUs: available and missing"):
            parts.html(tables_html)


def panels(run: Run) -> str:
    """A panel of facts for each thing that the run is made of."""
    return markup.panels(*(markup.facts(*each) for each in _about(run)), kind="py-facts")


def frame(run: Run) -> pd.DataFrame:
    """Every fact in a row, the telemetry of the machine among them, for CSV."""
    rows: list[tuple[str, str, str, object]] = [
        (of.lower(), called, name, _whole(value))
        for of, called, facts in _about(run)
        for name, value in markup.flat_values(facts)
    ]
    rows += [("capability", *each) for each in capabilities.capability_rows(run)]
    # As they are: a column of another kind would round a number, or make one of a missing one.
    return pd.DataFrame(rows, columns=["of", "called", "fact", "value"], dtype=object)


def _whole(value: object) -> object:
    """A fact as a CSV file has it, with all its digits."""
    if isinstance(value, list | tuple):
        return ", ".join(map(markup.format_value, cast("Sequence[object]", value)))
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    # pandas holds none that is larger.
    return markup.format_value(value) if isinstance(value, int) and abs(value) > _LARGEST else value


def _about(run: Run) -> list[tuple[str, str, Mapping[str, Any]]]:
    """What the run is made of, what that is called, and its facts."""
    facts = {name: value for name, value in run.facts.items() if name not in _ELSEWHERE}
    own = {"suite": run.suite, "harness": run.harness, "planned": run.planned}
    environments: list[tuple[str, str, Mapping[str, Any]]] = [
        ("Environment", e.name, {"torch": e.torch_version or "none", "python": e.python_version, **e.facts})
        for e in run.environments
    ]
    return [
        ("Machine", run.machine.name, {**run.machine.hardware.facts, **run.machine.facts}),
        *environments,
        ("Preset", run.preset.name, untitled_facts(run, run.preset.settings)),
        ("Run", run.id, {**own, **untitled_facts(run, facts)}),
    ]
