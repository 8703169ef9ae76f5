"""What limits each case of a run: utilisation by source, power, energy and clocks, a row for each case."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from dashboard.components import links, markup, wording
from records.outcomes import Measurement
from reports.table import Column, DataTable

#: Utilisation by its source: numbers of two sources are never in one table.
SOURCES: Mapping[str, tuple[str, ...]] = {
    "GPM, hardware counters": ("sm_utilisation", "tensor_active", "dram_active"),
    "DCGM, hardware counters": ("dcgm_sm_utilisation", "dcgm_tensor_active", "dcgm_dram_active"),
    "the driver's samples": ("gpu_busy",),
    "polling": ("gpu_busy_polled",),
}
#: What every source has beside it.
_COMMON = ("power", "energy_per_item", "sm_clock", "throttled", "process_memory")


@dataclass(frozen=True, slots=True)
class CaseUtilisation:
    """The telemetry metrics of one case in an environment of a run, by name."""

    run: str
    case: str
    environment: str
    metrics: Mapping[str, Measurement]


def by_source(run: str, measured: Sequence[Measurement]) -> dict[str, list[CaseUtilisation]]:
    """The cases that have a utilisation, by its source; the busiest first."""
    cases: dict[tuple[str, str], dict[str, Measurement]] = {}
    for each in measured:
        cases.setdefault((each.case, each.environment), {})[each.metric] = each
    found: dict[str, list[CaseUtilisation]] = {}
    for source, names in SOURCES.items():
        own = [CaseUtilisation(run, *key, metrics) for key, metrics in cases.items() if names[0] in metrics]
        if own:
            found[source] = sorted(own, key=lambda one: (-one.metrics[names[0]].point, one.case))
    return found


def table(
    source: str, cases: Sequence[CaseUtilisation], environments: Mapping[str, str] | None = None
) -> DataTable[CaseUtilisation]:
    """Cases with the metrics of one source and those that all have, without columns that no case has.

    `environments` are their names by fingerprint: of a run of several each case has a row in each.
    """
    names = [name for name in (*SOURCES[source], *_COMMON) if any(name in one.metrics for one in cases)]
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
    known = wording.metric(name)

    def read(one: CaseUtilisation) -> float | None:
        return one.metrics[name].point if name in one.metrics else None

    def cell(one: CaseUtilisation) -> str:
        value = read(one)
        return wording.NONE if value is None else wording.number(value, known.unit)

    title = f"{known.title} ({known.unit})"
    return [Column(name, title, read, cell, number=True, help=known.meaning)]
