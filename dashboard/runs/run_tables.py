"""The measurements of a run, with a row for each case, and its facts as panels and as a CSV file."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, cast

import pandas as pd
import streamlit as st

from analysis.decision.comparison import COMPARED, DECIDED
from dashboard.components import markup, parts, tables, wording
from dashboard.components.tables import untitled_facts
from dashboard.runs import capabilities
from records.kinds import RunSource
from records.outcomes import Measurement
from records.runs import Run
from reports.table import Column, DataTable


@dataclass(frozen=True, slots=True)
class MeasuredCase:
    """The measurements of a case in an environment (a fingerprint), by metric."""

    case: str
    environment: str
    metrics: Mapping[str, Measurement]

    @property
    def replicates(self) -> str:
        """The number of replicates: `3`, or `1 to 3` if metrics differ."""
        counts = [each.n for each in self.metrics.values()]
        least, most = min(counts), max(counts)
        return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def by_case(
    run: Run,
    items: Sequence[Measurement],
    definitions: wording.Definitions | None = None,
    item_names: Mapping[str, str] | None = None,
) -> DataTable[MeasuredCase]:
    """The medians of a run: see `tables.measurements`, which has a row for each of these numbers."""
    result: dict[tuple[str, str], dict[str, Measurement]] = {}
    for each in items:
        result.setdefault((each.case, each.environment), {})[each.metric] = each
    rows = [MeasuredCase(*key, result[key]) for key in sorted(result)]
    common = wording.common_parameters(dict.fromkeys(row.case for row in rows))
    metrics = sorted({each.metric for each in items}, key=wording.metric_place)
    titles = wording.titles(metrics, definitions or {})
    tool = tables.source_tool(run)

    def column(name: str) -> Column[MeasuredCase]:
        units = {
            row.case: tables.unit_of(name, (item_names or {}).get(row.case), definitions) for row in rows
        }
        own = {units[row.case] for row in rows if name in row.metrics}
        common_unit = own.pop() if len(own) == 1 else ""
        meaning = f"as {tool} reports it" if tool else wording.metric(name, definitions).meaning

        def cell(row: MeasuredCase) -> str:
            return _cell(row.metrics.get(name), units[row.case], with_unit=not common_unit)

        def point(row: MeasuredCase) -> float | None:
            return row.metrics[name].point if name in row.metrics else None

        return Column(
            "", wording.with_unit(titles[name], common_unit), point, html=cell, number=True, help=meaning
        )

    columns: list[Column[MeasuredCase]] = [
        Column("", "Case", html=lambda row: tables.case(run, row.case, row.environment, common)),
        *map(column, metrics),
        Column("", "n", format=lambda row: row.replicates, number=True),
    ]
    about = wording.all_cases(common)
    return DataTable("Measurements", columns, rows, folded=False, dense=True, about=about)


def _cell(one: Measurement | None, unit: str, *, with_unit: bool) -> str:
    """A median with the range of the replicates as its tooltip."""
    if one is None:
        return wording.NONE
    text = wording.quantity(one.point, unit) if with_unit else wording.number(one.point, unit)
    about = {
        "95 % interval": wording.value_range(one.low, one.high, unit),
        "min-max": wording.replicate_range(one.smallest, one.largest, one.n, unit),
        "spread": wording.percent(one.spread),
        "n": f"{one.n:,}",
    }
    texts = ", ".join(f"{name} {value}" for name, value in about.items() if value != wording.NONE)
    return f'<span title="{escape(texts)}">{escape(text)}</span>'


#: Facts that are shown elsewhere: the telemetry of the machine, and the comparison of an upgrade.
_ELSEWHERE = (capabilities.FACT, COMPARED, DECIDED)

_LARGEST = 2**63 - 1


def facts_section(run: Run) -> None:
    """The command of a run, and all its facts."""
    parts.heading("Facts", lambda: facts_frame(run), f"facts-{run.id}.csv")
    # The command of a submitted run cannot be typed again.
    if run.source == RunSource.MEASURED or run.source == RunSource.IMPORTED:
        parts.code(run.command)
    parts.html(facts_panels(run))
    if tables_html := capabilities.tables(run):
        with st.expander("Telemetry of GPUs and CPUs: available and missing"):
            parts.html(tables_html)


def facts_panels(run: Run) -> str:
    """A panel of facts for each part of the run."""
    return markup.panels(*(markup.facts(*each) for each in _about(run)), kind="py-facts")


def facts_frame(run: Run) -> pd.DataFrame:
    """A row for every fact, including the telemetry of the machine, for CSV."""
    rows: list[tuple[str, str, str, object]] = [
        (of.lower(), called, name, _whole(value))
        for of, called, facts in _about(run)
        for name, value in markup.flat_values(facts)
    ]
    rows += [("capability", *each) for each in capabilities.capability_rows(run)]
    # Unchanged values: a numeric column would round numbers and convert missing ones.
    return pd.DataFrame(rows, columns=["of", "called", "fact", "value"], dtype=object)


def _whole(value: object) -> object:
    """A fact in a CSV file, with all its digits."""
    if isinstance(value, list | tuple):
        return ", ".join(map(markup.format_value, cast("Sequence[object]", value)))
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    # The largest integer of pandas.
    return markup.format_value(value) if isinstance(value, int) and abs(value) > _LARGEST else value


def _about(run: Run) -> list[tuple[str, str, Mapping[str, Any]]]:
    """The parts of the run, with their names and facts."""
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
