"""Published claims next to the values measured here."""

from collections.abc import Callable, Mapping, Sequence
from html import escape

from analysis.claims_check import ClaimMeasurement
from dashboard.components import wording
from records.references import Claim
from reports.table import Column, DataTable
from reports.tables import reason_text
from reports.text.verdict_text import refusal

#: Each claim with the cases, environments and results to which it applies.
Claimed = Mapping[Claim, Sequence[tuple[str, str, ClaimMeasurement]]]
#: One claim about one case in an environment (a fingerprint).
ClaimRow = tuple[Claim, str, str, ClaimMeasurement]


def claims(
    claim_results: Claimed, name_of: Callable[[str, str], str], versions: Mapping[str, str]
) -> DataTable[ClaimRow]:
    """Every claim with every case that it applies to; `kind` is the meaning of both numbers.

    `name_of` is the HTML of a case in an environment; `versions` are the PyTorches of environments.
    """
    first = {claim: measured[0][:2] for claim, measured in claim_results.items()}

    def once(cell: Callable[[ClaimRow], str]) -> Callable[[ClaimRow], str]:
        # As in the table of measurements, equal cells of consecutive rows are printed once.
        return lambda row: cell(row) if row[1:3] == first[row[0]] else ""

    torch: Column[ClaimRow] = Column("torch", value=lambda row: versions.get(row[2]))
    columns: list[Column[ClaimRow]] = [
        Column("claim", "Claim", lambda row: row[0].statement, html=once(_statement)),
        Column("metric", value=lambda row: row[0].metric),
        Column("kind", value=lambda row: row[0].kind),
        Column("claimed_low", "Claimed", lambda row: row[0].low, once(_claim_range), number=True),
        Column("claimed_high", value=lambda row: row[0].high),
        Column("claimed_for", value=lambda row: row[0].hardware),
        Column("source", value=lambda row: row[0].source),
        Column("measured", "Measured here", lambda row: row[3].point, _measurement_text, number=True),
        Column("low", "95 % interval", lambda row: row[3].low, _interval, number=True),
        Column("high", value=lambda row: row[3].high),
        Column("n", "n", lambda row: row[3].n, _pairs, number=True),
        Column("reason", value=lambda row: refusal(row[3].reason)),
        Column("case", "Case", lambda row: row[1], html=lambda row: name_of(row[1], row[2])),
        *([torch] if versions else []),
        Column("environment", value=lambda row: row[2]),
    ]
    rows = [(claim, *each) for claim, measured in claim_results.items() for each in measured]
    return DataTable("Claimed, and measured here", columns, rows)


def _statement(row: ClaimRow) -> str:
    claim = row[0]
    source = escape(claim.source)
    if claim.url:
        source = f'<a href="{escape(claim.url)}" target="_blank" rel="noreferrer">{source}</a>'
    origin = f"<small>{escape(claim.hardware)} · {source}</small>"
    return f'<span class="py-reason">{escape(claim.statement)}{origin}</span>'


def _number(claim: Claim, value: float) -> str:
    return wording.claim_value(claim.kind, claim.metric, value)


def _claim_range(row: ClaimRow) -> str:
    claim = row[0]
    return " to ".join(_number(claim, value) for value in dict.fromkeys((claim.low, claim.high)))


def _measurement_text(row: ClaimRow) -> str:
    point = row[3].point
    return wording.NONE if point is None else _number(row[0], point)


def _interval(row: ClaimRow) -> str:
    claim, _, _, result = row
    if result.point is None:
        return reason_text(refusal(result.reason))
    if result.low is None or result.high is None:
        return wording.NONE
    return f"{_number(claim, result.low)} to {_number(claim, result.high)}"


def _pairs(row: ClaimRow) -> str:
    return wording.NONE if row[3].point is None else str(row[3].n)
