"""The regressions that are still open, a row for each cause."""

from collections.abc import Sequence

from dashboard.components import links, wording
from dashboard.regressions.causes import FindingCause
from reports.table import Column, DataTable
from reports.text.numbers import percent


def table(items: Sequence[FindingCause], omitted: int = 0) -> DataTable[FindingCause]:
    """The causes; `omitted` more are counted below."""
    columns = (
        Column[FindingCause](label="Cause", format=_cause, link=lambda one: links.finding(one.largest.id)),
        Column[FindingCause](label="Change", format=lambda one: percent(one.largest.change), number=True),
        Column[FindingCause](label="First seen", format=lambda one: f"{one.largest.at:%d %b}"),
    )
    return DataTable("Still open", columns, items, rest="more: Regressions has all.", omitted=max(0, omitted))


def _cause(one: FindingCause) -> str:
    words = wording.case(one.largest.key.case)
    more = f" and {len(one.cases) - 1} more" if len(one.cases) > 1 else ""
    return f"{words.text}{more}"
