"""An upgrade as DataFrames: what the page's CSV files hold and its charts draw."""

from collections.abc import Sequence

import pandas as pd

from analysis.comparison.upgrade import Table
from analysis.comparison.verdict import Verdict
from analysis.geomean import Geomean
from analysis.metrics import METRICS
from analysis.ratios import ratio, share
from dashboard.components import wording as dashboard_wording
from dashboard.upgrades.hardware import HardwareVerdict
from dashboard.upgrades.ordering import impact
from dashboard.upgrades.view import Listed
from reports import wording
from reports.forest import ForestAxis
from reports.report_context import changes
from reports.rows import Row, left_out, table_rows, techniques
from reports.scorecard import Entry
from reports.text.numbers import percent
from reports.text.reason_text import exclusion as excluded
from reports.text.reason_text import sentence
from reports.upgrade_report import JudgedUpgrade

_SIDES = ("old_status", "old_reason", "new_status", "new_reason")
_JUDGED = (
    *("metric", "unit", "better", "verdict", "old", "new", "ratio", "ratio_low", "ratio_high"),
    *("n", "left_out", "smallest_visible", "threshold"),
)


def reasons(judged: JudgedUpgrade) -> pd.DataFrame:
    """What speaks for which decision, weightiest first."""
    rows = [
        {
            "speaks_for": one.speaks,
            "kind": one.kind,
            "reason": sentence(one),
            "metric": one.metric,
            "cases": " ".join(one.cases),
        }
        for one in judged.upgrade.reasons
    ]
    return pd.DataFrame(rows, columns=["speaks_for", "kind", "reason", "metric", "cases"])


def settle(judged: JudgedUpgrade) -> pd.DataFrame:
    """What would settle an unclear upgrade: new pairs of each case, and minutes."""
    rows = [
        {"case": one.case, "pairs": one.pairs, "minutes": one.minutes, "because": one.why}
        | {"command": judged.subject.settle(one)}
        for one in judged.upgrade.settle
    ]
    return pd.DataFrame(rows, columns=["case", "pairs", "minutes", "because", "command"])


def correctness(judged: JudgedUpgrade) -> pd.DataFrame:
    """What broke and what was repaired."""
    upgrade = judged.upgrade
    told = [("broken", each) for each in upgrade.broken] + [("repaired", each) for each in upgrade.repaired]
    rows = [
        (what, one.case, one.old.status, one.old.reason, one.new.status, one.new.reason) for what, one in told
    ]
    return pd.DataFrame(rows, columns=["what", "case", *_SIDES])


def cases(judged: JudgedUpgrade, rows: Sequence[Row]) -> pd.DataFrame:
    """Every case: ratios are new / old, `smallest_visible` and `threshold` shares.

    `impact` is weight x log(new / old), above 0 where it is worse.
    """
    policy = judged.subject.policy
    found = [
        {
            "case": row.case,
            "technique": row.result.technique,
            "standing": row.standing,
            **(_verdict(row.verdict) if row.verdict else {}),
            "weight": policy.weight(row.case),
            "impact": impact(row, policy),
            "told": row.summary,
            "turns": row.result.turns,
            "old_status": row.result.old.status,
            "old_reason": row.result.old.reason,
            "new_status": row.result.new.status,
            "new_reason": row.result.new.reason,
            "reproduce": judged.subject.reproduce(row.case),
        }
        for row in rows
    ]
    about = ("case", "technique", "standing", *_JUDGED)
    rest = ("weight", "impact", "told", "turns", *_SIDES, "reproduce")
    return pd.DataFrame(found, columns=[*about, *rest])


def means(judged: JudgedUpgrade) -> pd.DataFrame:
    """The geomean over all, and by technique; ratios are new / old."""
    upgrade = judged.upgrade
    every = [("all", upgrade.overall, len(upgrade.exclusions))]
    every += [(row.technique, row.mean, len(row.excluded)) for row in techniques(judged.results, upgrade)]
    found = [
        (name, *map(ratio, (mean.change, mean.low, mean.high)), mean.confidence, mean.cases, mean.pairs, out)
        if mean
        else (name, None, None, None, None, 0, 0, out)
        for name, mean, out in every
    ]
    columns = ["technique", "ratio", "ratio_low", "ratio_high", "confidence", "cases", "pairs", "left_out"]
    return pd.DataFrame(found, columns=columns)


def tables(listed: Sequence[Table]) -> pd.DataFrame:
    """Every verdict of some metrics."""
    found = [{"case": case, **_verdict(one)} for table in listed for case, one in table_rows(table)]
    return pd.DataFrame(found, columns=["case", *_JUDGED])


def exclusions(judged: JudgedUpgrade, rows: Sequence[Row]) -> pd.DataFrame:
    """Cases that are in no geomean, and pairs that do not count, with the reasons."""
    found = [("case", one.case, excluded(one)) for one in judged.upgrade.exclusions]
    found += [("pairs", case, why) for case, why in left_out(rows)]
    return pd.DataFrame(found, columns=["what", "case", "reason"])


def differences(judged: JudgedUpgrade) -> pd.DataFrame:
    """What differs between the two environments."""
    found = changes(judged.subject.old, judged.subject.new)
    return pd.DataFrame([(one.what, one.old, one.new) for one in found], columns=["what", "old", "new"])


def upgrades(items: Sequence[Listed]) -> pd.DataFrame:
    """A list of upgrades."""
    rows = [
        {
            "run": one.run.id,
            "old": one.old.name,
            "old_torch": one.old.torch_version,
            "new": one.new.name,
            "new_torch": one.new.torch_version,
            "hardware": one.run.hardware_label,
            "machine": one.run.machine,
            "preset": one.run.preset,
            "suite": one.run.suite,
            "started_at": one.run.started_at,
            "state": one.run.state,
            "decision": one.decision,
            "because": one.because,
        }
        for one in items
    ]
    columns = ["run", "old", "old_torch", "new", "new_torch", "hardware", "machine", "preset", "suite"]
    return pd.DataFrame(rows, columns=[*columns, "started_at", "state", "decision", "because"])


def hardware(verdicts: Sequence[HardwareVerdict]) -> pd.DataFrame:
    """A pair of versions on all hardware: the decision, and the state and the number of each metric."""
    rows = [
        {
            "hardware": one.listed.run.hardware_label,
            "run": one.listed.run.id,
            "suite": one.listed.run.suite,
            "started_at": one.listed.run.started_at,
            "decision": one.decision or "",
            "because": one.because,
            **{
                f"{_column(entry)}_{what}": text
                for entry in one.entries
                for what, text in (("state", entry.state), ("value", entry.value), ("largest", entry.largest))
            },
        }
        for one in verdicts
    ]
    return pd.DataFrame(rows)


def _column(entry: Entry) -> str:
    return entry.title.lower().replace(" ", "_")


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


def _verdict(judged: Verdict) -> dict[str, object]:
    known = METRICS[judged.metric]
    return {
        "metric": judged.metric,
        "unit": known.unit,
        "better": known.better,
        "verdict": judged.word,
        "old": judged.old,
        "new": judged.new,
        "ratio": ratio(judged.change),
        "ratio_low": ratio(judged.low),
        "ratio_high": ratio(judged.high),
        "n": judged.n,
        "left_out": len(judged.left_out),
        "smallest_visible": share(judged.smallest),
        "threshold": share(judged.threshold),
    }


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
