"""The measurements of a run with a row for each case and a column for each metric."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from dashboard.components import tables, wording
from records.outcomes import Measurement
from records.runs import Run
from reports.table import Column, DataTable


@dataclass(frozen=True, slots=True)
class MeasuredCase:
    """What was measured of a case in an environment (a fingerprint), by metric."""

    case: str
    environment: str
    metrics: Mapping[str, Measurement]

    @property
    def replicates(self) -> str:
        """How many replicates the numbers are of: `3`, or `1 to 3` where metrics differ."""
        counts = [each.n for each in self.metrics.values()]
        least, most = min(counts), max(counts)
        return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def by_case(
    run: Run,
    items: Sequence[Measurement],
    defined: wording.Definitions | None = None,
    counted: Mapping[str, str] | None = None,
) -> DataTable[MeasuredCase]:
    """The medians of a run: see `tables.measurements`, which has a row for each of these numbers."""
    found: dict[tuple[str, str], dict[str, Measurement]] = {}
    for each in items:
        found.setdefault((each.case, each.environment), {})[each.metric] = each
    rows = [MeasuredCase(*key, found[key]) for key in sorted(found)]
    common = wording.common_parameters(dict.fromkeys(row.case for row in rows))
    metrics = sorted({each.metric for each in items}, key=wording.metric_place)
    titles = wording.titles(metrics, defined or {})
    tool = tables.source_tool(run)

    def column(name: str) -> Column[MeasuredCase]:
        units = {row.case: tables.unit_of(name, (counted or {}).get(row.case), defined) for row in rows}
        own = {units[row.case] for row in rows if name in row.metrics}
        shared = own.pop() if len(own) == 1 else ""
        meaning = f"as {tool} reports it" if tool else wording.metric(name, defined).meaning

        def cell(row: MeasuredCase) -> str:
            return _cell(row.metrics.get(name), units[row.case], with_unit=not shared)

        def point(row: MeasuredCase) -> float | None:
            return row.metrics[name].point if name in row.metrics else None

        return Column(
            "", wording.with_unit(titles[name], shared), point, html=cell, number=True, help=meaning
        )

    columns: list[Column[MeasuredCase]] = [
        Column("", "Case", html=lambda row: tables.case(run, row.case, row.environment, common)),
        *map(column, metrics),
        Column("", "n", format=lambda row: row.replicates, number=True),
    ]
    about = wording.all_cases(common)
    return DataTable("Measurements", columns, rows, folded=False, dense=True, about=about)


def _cell(one: Measurement | None, unit: str, *, with_unit: bool) -> str:
    """A median, whose tooltip says how far the replicates lie apart."""
    if one is None:
        return wording.NONE
    text = wording.quantity(one.point, unit) if with_unit else wording.number(one.point, unit)
    about = {
        "95 % interval": wording.value_range(one.low, one.high, unit),
        "min-max": wording.value_range(one.smallest, one.largest, unit),
        "spread": wording.percent(one.spread),
        "n": f"{one.n:,}",
    }
    said = ", ".join(f"{name} {value}" for name, value in about.items() if value != wording.NONE)
    return f'<span title="{escape(said)}">{escape(text)}</span>'
