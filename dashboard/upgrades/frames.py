"""What the charts of an upgrade draw, as DataFrames."""

from collections.abc import Sequence

import pandas as pd

from analysis.geomean import Geomean
from dashboard.components import wording as dashboard_wording
from reports import wording
from reports.forest import ForestAxis
from reports.rows import Row
from reports.text.numbers import percent
from reports.upgrade_report import JudgedUpgrade


def drawn_cases(judged: JudgedUpgrade, rows: Sequence[Row], axis: ForestAxis) -> pd.DataFrame:
    """What `charts.intervals` draws of cases that have a ratio, and their geomean last."""
    found = [
        _drawn(
            axis,
            dashboard_wording.case(row.case).text,
            row.word,
            (row.verdict.change, row.verdict.low, row.verdict.high),
            n=row.verdict.n,
            standing=row.standing,
            tone=row.tone,
            told=row.summary,
        )
        for row in rows
        if row.verdict and row.verdict.change is not None
    ]
    overall = judged.upgrade.overall
    if overall.change is not None:
        told = f"geomean over {wording.plural(overall.cases, 'case')}"
        found.append(_drawn_mean(axis, told, overall))
    return _numbered(found)


def drawn_means(judged: JudgedUpgrade, names: Sequence[str], axis: ForestAxis) -> pd.DataFrame:
    """What `charts.intervals` draws of the geomeans of these techniques, that over all last."""
    upgrade = judged.upgrade
    means = [*((name, upgrade.techniques[name]) for name in names), ("all", upgrade.overall)]
    named = [(f"{name}, {wording.plural(mean.cases, 'case')}", mean) for name, mean in means]
    return _numbered([_drawn_mean(axis, label, mean) for label, mean in named if mean.change is not None])


def _drawn_mean(axis: ForestAxis, label: str, mean: Geomean) -> dict[str, object]:
    ends = (mean.change, mean.low, mean.high)
    return _drawn(axis, label, "geomean", ends, n=mean.pairs, standing="mean", tone="quiet", told=label)


def _drawn(
    axis: ForestAxis,
    label: str,
    word: str,
    ends: tuple[float | None, float | None, float | None],
    *,
    n: int,
    standing: str,
    tone: str,
    told: str,
) -> dict[str, object]:
    """One line of the chart: what lies beyond its axis is drawn at the edge, and told as it is."""
    change, low, high = ends
    inside = [None if end is None else max(-axis.limit, min(axis.limit, end)) for end in ends]
    interval = wording.interval(low, high)
    return {
        "label": label,
        "word": word,
        "standing": standing,
        "tone": tone,
        "change": inside[0],
        "low": inside[1],
        "high": inside[2],
        "beyond": any(end is not None and abs(end) > axis.limit for end in ends),
        "text": f"{percent(change)} [{interval}], n {n}",
        "told": told,
        "interval": interval,
        "changed": percent(change),
        "n": n,
    }


def _numbered(rows: Sequence[dict[str, object]]) -> pd.DataFrame:
    return pd.DataFrame([{"row": place, **row} for place, row in enumerate(rows)])
