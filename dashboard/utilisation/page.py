"""One telemetry window: the utilisation of GPU and CPUs while a case ran, on one axis of seconds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

import streamlit as st
from markupsafe import Markup

from dashboard.components import links, load, markup, parts, wording
from dashboard.components.query_params import distinct, last
from dashboard.header import page_context
from dashboard.server.settings import ServerSettings
from dashboard.utilisation import telemetry, view
from records.outcomes import Measurement
from reports.table import Column, DataTable

#: Utilisation metrics by source: values of two sources are never in one table.
SOURCES: Mapping[str, tuple[str, ...]] = {
    "GPM, hardware counters": ("sm_utilisation", "tensor_active", "dram_active"),
    "DCGM, hardware counters": ("dcgm_sm_utilisation", "dcgm_tensor_active", "dcgm_dram_active"),
    "the driver's samples": ("gpu_busy",),
    "polling": ("gpu_busy_polled",),
}
#: The metrics shown for every source.
_EVERY_SOURCE = ("power", "energy_per_item", "sm_clock", "throttled", "process_memory")


@dataclass(frozen=True, slots=True)
class CaseUtilisation:
    """The telemetry metrics of one case in an environment of a run, by name."""

    run: str
    case: str
    environment: str
    metrics: Mapping[str, Measurement]


def by_source(run: str, measurements: Sequence[Measurement]) -> dict[str, list[CaseUtilisation]]:
    """The cases with a utilisation, by its source, highest first."""
    cases: dict[tuple[str, str], dict[str, Measurement]] = {}
    for each in measurements:
        cases.setdefault((each.case, each.environment), {})[each.metric] = each
    groups: dict[str, list[CaseUtilisation]] = {}
    for source, names in SOURCES.items():
        own = [CaseUtilisation(run, *key, metrics) for key, metrics in cases.items() if names[0] in metrics]
        if own:
            groups[source] = sorted(own, key=lambda one: (-one.metrics[names[0]].point, one.case))
    return groups


def limits_table(
    source: str, cases: Sequence[CaseUtilisation], environments: Mapping[str, str] | None = None
) -> DataTable[CaseUtilisation]:
    """Cases with the metrics of one source and the common ones, without columns that no case has.

    `environments` are their names by fingerprint: in a run of several each case has a row for each.
    """
    names = [name for name in (*SOURCES[source], *_EVERY_SOURCE) if any(name in one.metrics for one in cases)]
    several = len({one.environment for one in cases}) > 1
    columns: list[Column[CaseUtilisation]] = [
        Column(
            "case",
            "Case",
            lambda one: one.case,
            lambda one: Markup(markup.case(one.case)),
            link=lambda one: links.windows(one.run, one.case, one.environment),
        ),
        Column(
            "environment",
            "Environment" if several else None,
            lambda one: one.environment,
            lambda one: (environments or {}).get(one.environment, links.short(one.environment)),
        ),
        *(column for name in names for column in _metric(name)),
        Column("source", value=lambda one: source),
    ]
    return DataTable(f"What limits each case, by {source}", columns, cases, 40)


def _metric(name: str) -> list[Column[CaseUtilisation]]:
    metric = wording.metric(name)

    def metric_value(one: CaseUtilisation) -> float | None:
        return one.metrics[name].point if name in one.metrics else None

    def cell(one: CaseUtilisation) -> str:
        value = metric_value(one)
        return wording.NONE if value is None else wording.number(value, metric.unit)

    title = f"{metric.title} ({metric.unit})"
    return [Column(name, title, metric_value, cell, number=True, help=metric.meaning)]


def show() -> None:
    """Show the telemetry window that the address names, else the first one of the newest run."""
    url = ServerSettings.from_environment().database_url
    query = parts.query()
    parts.title("Utilisation")
    newest = load.newest_windows(url)
    if not newest:
        telemetry.nothing_recorded(url)
        st.stop()

    name = last(query, "run")
    default_windows = page_context.narrow_items(
        newest, attrgetter("workload"), attrgetter("hardware_fingerprint")
    )
    run_id, complaints = telemetry.choose_run(url, name, newest if name else default_windows)
    windows = load.windows(url, run_id)
    preferred_windows = page_context.narrow_items(windows, attrgetter("workload"))
    selection, own, more = view.utilisation(query, run_id, windows, preferred_windows)
    parts.complain([*complaints, *more])
    if name is not None:
        telemetry.without_window(url, name, newest)
    if last(query, "case"):
        place = windows[0].hardware_fingerprint[: links.FINGERPRINT]
        page_context.keep("/explore", query, hardware=place, workload=own[0].workload)
    with st.container(horizontal=True, vertical_alignment="bottom", key="window-choice"):
        parts.select("Run", "run", telemetry.runs_on_offer(newest, windows[0]), selection)
        cases = sorted({w.case for w in windows})
        parts.select("Case", "case", {case: wording.case(case).text for case in cases}, selection)
        environments = {w.environment: w.environment_name for w in windows if w.case == selection.case}
        if len(environments) > 1:
            parts.select("Environment", "environment", distinct(environments), selection)
    names = {w.device: " · ".join(wording.device(w.name, w.device)) for w in own}
    if len(names) > 1:
        most = view.MAX_DEVICES
        label = "Devices" + (f", up to {most}" if len(names) > most else "")
        parts.several(label, "devices", names, selection, most)

    for source, utilisations in by_source(run_id, load.measurements(url, run_id)).items():
        table = limits_table(source, utilisations, {w.environment: w.environment_name for w in windows})
        parts.table_section(table.label, table, f"utilisation-{run_id}-{next(iter(SOURCES[source]))}.csv")
    telemetry.side_by_side(
        url, selection, [w for device in selection.devices for w in own if w.device == device]
    )

    telemetry.all_windows(run_id, windows, selection.case)
    if name is None:
        telemetry.without_window(url, name, newest)
    parts.permanent_link(selection.address)
