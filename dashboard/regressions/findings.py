"""Findings as HTML tables and panels; all text from the database is escaped."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Any

import pandas as pd

from analysis.dispatch_difference import CaseDifference
from analysis.ratios import as_ratios
from dashboard.components import links, markup, wording
from dashboard.regressions.causes import FindingCause
from dashboard.regressions.load import NEW, Findings
from records.evidence import OperatorDifference, PairVerdict, RelatedFinding, RelatedVerdict
from records.findings import Finding, FindingGroup, FindingState, TriageEntry
from records.json_values import Facts
from records.runs import RunChange
from reports.table import Column, DataTable
from reports.tables import reason_text
from reports.text.dispatch_text import case_words
from reports.text.finding_text import (
    STATES,
    TRIAGES,
    because,
    describe_change,
    goes_on,
    interval,
    kind,
    stricter,
    verdict_word,
)
from reports.text.numbers import percent

_TONES: Mapping[str, wording.Tone] = {"worse": "bad", "better": "good"}
Rows = Sequence[Mapping[str, Any]]
#: The number of nights of a sparkline.
NIGHTS = 60
_OPEN = "Open\u00a0→"
#: The most changes of operators and kernels.
_MOST_CHANGES = 20

#: The tabs of the list by state.
TABS: Mapping[str, str] = {
    NEW: "New",
    FindingGroup.OPEN: "Open",
    FindingGroup.IMPROVEMENT: "Improvements",
    FindingGroup.KNOWN: "Quiet",
}
#: The labels of the groups of findings.
GROUPS: Mapping[FindingGroup, str] = {
    FindingGroup.OPEN: "Open regressions",
    FindingGroup.IMPROVEMENT: "Improvements",
    FindingGroup.WAITING: "Not confirmed yet",
    FindingGroup.UNCLEAR: "Unclear",
    FindingGroup.KNOWN: "Triaged or muted",
    FindingGroup.CLOSED: "Closed",
}


def table(items: Sequence[FindingCause], lines: Mapping[int, str], now: datetime) -> DataTable[FindingCause]:
    """A row for each cause; `lines` are sparklines by the id of a finding."""
    columns: list[Column[FindingCause]] = [
        Column("", "Cause", html=_cause),
        Column("", "Change", html=lambda one: _change(one.largest), number=True),
        Column("", "Status", html=lambda one: markup.chip(kind(one.largest.state, one.largest.direction))),
        Column("", f"Last {NIGHTS} nights", html=lambda one: lines.get(one.largest.id, wording.NONE)),
        Column("", "First seen (UTC)", html=lambda one: _first_seen(one.largest, now)),
        Column("", "Triage", html=lambda one: _triage(one.items, now)),
        Column("", "", html=_open),
    ]
    return DataTable("Findings", columns, items, dense=True)


def _cause(cause: FindingCause) -> str:
    more = len(cause.items) - 1
    others = f" · and {wording.plural(more, 'finding')} more" if more else ""
    return f"{markup.case(cause.largest.key.case)}{_metric(cause.largest, others)}"


def _triage(items: Sequence[Finding], now: datetime) -> str:
    """What people did with the findings of a cause; where that differs, with how many of them."""
    counted = Counter(one.triage for one in items)
    several = len(counted) > 1
    words = ", ".join(f"{many} {triage}" if several else triage for triage, many in counted.items())
    listed = dict.fromkeys(each for one in items for each in _marks(one, now))
    return escape(words) + "".join(f'<small class="py-mark">{escape(each)}</small>' for each in listed)


def _first_seen(one: Finding, now: datetime) -> str:
    """The time and, on one line, the place; the tooltip has the whole names."""
    about = (versions(one), one.machine, one.key.hardware_label, one.key.preset_name)
    old, new = (wording.version(each) for each in (one.old_torch_version, one.new_torch_version))
    builds = new if one.old_torch_version == one.new_torch_version else f"{old} → {new}"
    lines = markup.two_lines(f"{one.at:%Y-%m-%d}, {wording.ago(one.at, now)}", f"{builds} · {one.machine}")
    return f'<span title="{escape(" · ".join(about))}">{lines}</span>'


def _open(cause: FindingCause) -> str:
    """The link to the finding; for several findings each with its case."""
    if len(cause.items) == 1:
        return markup.link(links.finding(cause.largest.id), _OPEN)
    lines = "".join(
        f"<li>{escape(wording.case(one.key.case).text)} {_metric(one)} {_change(one)} "
        f"{markup.link(links.finding(one.id), _OPEN)}</li>"
        for one in cause.items
    )
    return (
        f"<details><summary>{wording.plural(len(cause.items), 'finding')}</summary><ul>{lines}</ul></details>"
    )


def open_causes(items: Sequence[FindingCause], omission_count: int = 0) -> DataTable[FindingCause]:
    """Open regressions in short form, a row for each cause; `omission_count` ones are counted below."""
    columns: Sequence[Column[FindingCause]] = (
        Column(label="Cause", format=_cause_cell, link=lambda one: links.finding(one.largest.id)),
        Column(label="Change", format=lambda one: percent(one.largest.change), number=True),
        Column(label="First seen", format=lambda one: f"{one.largest.at:%d %b}"),
    )
    return DataTable(
        "Still open", columns, items, rest="more: Regressions has all.", omitted=max(0, omission_count)
    )


def _cause_cell(one: FindingCause) -> str:
    words = wording.case(one.largest.key.case)
    more = f" and {len(one.cases) - 1} more" if len(one.cases) > 1 else ""
    return f"{words.text}{more}"


def other_groups(groups: Mapping[FindingGroup, int], selection: Findings) -> str:
    """The number of findings of the chosen schedule in the groups without a tab, with links.

    Empty if there are none.
    """
    addresses = {
        FindingGroup.WAITING: ("candidate", {"state": "waiting"}),
        FindingGroup.UNCLEAR: ("unclear finding", {"state": "unclear", "triage": "open"}),
    }
    parts = [
        markup.link(
            links.findings(schedule=selection.schedule, **address),
            f"{wording.plural(groups[group], words)} →",
        )
        for group, (words, address) in addresses.items()
        if groups[group] and group is not selection.group
    ]
    return f'<p class="py-quiet">Also: {" · ".join(parts)}</p>' if parts else ""


def frame(items: Iterable[Finding]) -> pd.DataFrame:
    """The same for a CSV file; ratios are new / old."""
    return pd.DataFrame(
        [
            as_ratios(
                {
                    "id": one.id,
                    "what": kind(one.state, one.direction),
                    **{name: getattr(one.key, name) for name in _KEY},
                    **{name: getattr(one, name) for name in _KEPT},
                }
            )
            for one in items
        ],
        columns=["id", "what", *_KEY, *_COLUMNS],
    )


_KEY = ("case", "metric", "hardware_label", "preset_name")
_FURTHER = (
    *("machine", "schedule", "track", "at", "at_run", "before_run", "old_torch_version"),
    *("new_torch_version", "found_at", "triage", "owner", "link"),
)
_KEPT = ("state", "direction", "change", "low", "high", *_FURTHER)
_COLUMNS = ("state", "direction", "ratio", "ratio_low", "ratio_high", *_FURTHER)


def title(one: Finding) -> str:
    """The title of a finding: its case, its kind, and a sentence about the change."""
    better = wording.metric(one.key.metric).better
    better = "" if better == "neither" else f" {better.capitalize()} is better."
    chip = markup.chip(kind(one.state, one.direction))
    since = f"since the night of {one.at:%Y-%m-%d} (UTC)"
    if one.shape == "drift":
        # A drift has no first night: only a night before its beginning is known.
        since = f"gradually after the night of {one.before:%Y-%m-%d} (UTC)"
    since += f", {versions(one)}"
    return (
        f"<p>{markup.link(links.findings(), '← All findings')} · Finding {one.id}</p>"
        f'<div class="py-title">{markup.case(one.key.case)} {chip}</div>'
        f"<p>{escape(f'{describe_change(one.key.metric, one.change)} {since}.{better}')}</p>"
    )


def cards(one: Finding, now: datetime) -> str:
    """The main numbers in a row."""
    why = because(one.state, one.evidence)
    state = STATES.get(one.state, one.state) + (f"; {why}" if why else "")
    before, after = links.run(one.before_run), links.run(one.at_run)
    further = one.evidence.goes_on
    on = [markup.card("Goes on", "yes", escape(goes_on(further)))] if further else []
    return markup.panels(
        markup.card("Change", _size(one), escape("; ".join((one.direction, _shape(one))))),
        *on,
        markup.card("State", escape(one.state), escape(state)),
        markup.card(
            "Between",
            escape(f"{one.before:%m-%d} and {one.at:%m-%d}"),
            f"{markup.link(before, 'Run before →')} {markup.link(after, 'Run after →')}",
        ),
        markup.card(
            "Where",
            escape(one.machine),
            f"{markup.hardware(one.key.hardware_label)}, {escape(one.key.preset_name)}",
        ),
        markup.card(
            "Triage", escape(one.triage), escape("; ".join((TRIAGES.get(one.triage, ""), *_marks(one, now))))
        ),
    )


def ways(one: Finding) -> str:
    """Links to the evidence of the finding, and to related findings and issues."""
    key = one.key
    trend = links.trends(key.metric, key.hardware, key.preset, key.case, at=one.at_run)
    links_html = [markup.link(trend, "Trend →")]
    if run := one.evidence.confirmation.run:
        links_html.append(markup.link(links.run(run), "The session that measured it again →"))
    if began_as := one.evidence.began_as:
        links_html.append(markup.link(links.finding(began_as), f"Continues finding {began_as} →"))
    continuation = one.evidence.goes_on
    if continuation is not None and (later := continuation.finding):
        links_html.append(markup.link(links.finding(later), f"Continued as finding {later} →"))
    if one.returns_of is not None:
        links_html.append(
            markup.link(links.finding(one.returns_of), f"Return of fixed finding {one.returns_of} →")
        )
    if one.link:
        links_html.append(markup.outside(one.link, one.link))
    return f"<p>{' · '.join(links_html)}</p>"


def verdict(one: Finding) -> str:
    """The result of the session's pairs; empty without a session."""
    session = one.evidence.confirmation
    pair = session.verdict
    if pair is None:
        return ""
    sides = [f"{each.name} (torch {each.torch})" for each in session.compared]
    rebuilt = "yes: its other packages may differ" if session.rebuilt else "no"
    old, new = (_quantity(value, pair.unit) for value in (pair.old, pair.new))
    pairs = {
        "old": ", ".join(each for each in (old, *sides[:1]) if each),
        "new": ", ".join(each for each in (new, *sides[1:2]) if each),
        "pairs (A/B)": pair.pairs,
        "interval": _interval(pair),
        "confidence": wording.percent(pair.confidence) if pair.confidence else None,
        "detectable from (MDE)": None if pair.smallest is None else percent(pair.smallest).lstrip("+"),
        "one side was rebuilt": rebuilt,
    }
    return markup.panels(markup.facts("Verdict of the session", verdict_word(pair), pairs), kind="py-facts")


def changes(rows: Sequence[RunChange]) -> DataTable[RunChange]:
    """The differences between two runs, such as the nights before and after."""
    columns: list[Column[RunChange]] = [
        Column("kind", "Of", lambda row: row.kind),
        Column("name", "What", lambda row: row.name),
        Column("before", "Before", lambda row: row.before),
        Column("after", "After", lambda row: row.after),
    ]
    return DataTable("What changed", columns, rows)


def related_cases(rows: Sequence[RelatedVerdict]) -> str:
    """The result of the same session for other techniques of the workload."""
    columns: list[Column[RelatedVerdict]] = [
        Column("", "Case", html=lambda row: markup.case(row.case)),
        Column("", "Verdict", format=lambda row: verdict_word(row.verdict)),
        Column("", "Change", format=lambda row: _interval(row.verdict), number=True),
        Column("", "Pairs", format=lambda row: str(row.verdict.pairs), number=True),
    ]
    return DataTable("Related cases", columns, rows).html()


def moved_with(rows: Sequence[RelatedFinding]) -> str:
    """The cases of single operators that changed in the same nights."""
    columns: list[Column[RelatedFinding]] = [
        Column("", "Operator", html=lambda row: markup.case(row.case)),
        Column("", "Metric", format=lambda row: wording.metric(row.metric).title),
        Column("", "Change", format=lambda row: percent(row.change), number=True),
        Column("", "State", html=lambda row: markup.chip(kind(row.state, row.direction))),
        Column("", "", format=lambda _: "Open →", link=lambda row: links.finding(row.finding)),
    ]
    return DataTable("Operators that moved too", columns, rows).html()


def dispatch(body: Facts) -> str:
    """The differing operators and kernels of the case, a line each; empty if not recorded."""
    if not body:
        return ""
    lines = case_words(CaseDifference.from_body(body), _MOST_CHANGES)
    columns: list[Column[str]] = [Column("", "Change", format=str)]
    rows = lines or ["no recorded difference"]
    return DataTable("What runs differently", columns, rows).html()


def operators(difference: OperatorDifference) -> str:
    """The difference of the operator tables of both sides, largest difference first."""

    def number(name: str, label: str) -> Column[Mapping[str, Any]]:
        return Column("", label, format=lambda row: _microseconds(row.get(name)), number=True)

    columns: list[Column[Mapping[str, Any]]] = [
        Column("", "Operator", format=lambda row: str(row.get("name"))),
        Column("", "Kind", format=lambda row: str(row.get("kind"))),
        number("self_us_a", "Old µs"),
        number("self_us_b", "New µs"),
        number("delta_us", "New - old µs"),
    ]
    runs = (difference.old_run, difference.new_run)
    trace_links = " and ".join(markup.link(links.run(run), run) for run in runs)
    table = DataTable("Operators", columns, difference.rows, tall=True, folded=False).html()
    return f'{table}<p class="py-quiet">Traced in {trace_links}.</p>'


def evidence_frame(evidence: Rows | Mapping[str, Any]) -> pd.DataFrame:
    """A part of the evidence for a CSV file, with ratios: rows, an object with rows, or a single row."""
    rows: Rows = evidence.get("rows") or [evidence] if isinstance(evidence, Mapping) else evidence
    return pd.DataFrame([as_ratios(row) for row in rows])


def log(entries: Sequence[TriageEntry]) -> DataTable[TriageEntry]:
    """The triage log, oldest entry first."""
    columns: list[Column[TriageEntry]] = [
        Column("finding_id", value=lambda each: each.finding_id),
        Column("at", "When", lambda each: each.at, lambda each: wording.timestamp(each.at)),
        Column("who", "Name", lambda each: each.who),
        Column("action", "Action", lambda each: each.action),
        Column("text", "Comment", lambda each: each.text, lambda each: reason_text(each.text)),
    ]
    return DataTable("Triage", columns, entries)


def versions(one: Finding) -> str:
    """The PyTorch versions before and after."""
    old, new = one.old_torch_version or wording.NONE, one.new_torch_version or wording.NONE
    return f"torch {new}" if old == new else f"torch {old} → {new}"


def _change(one: Finding) -> str:
    text = interval(one.change, one.low, one.high)
    return f'<span class="py-{_tone(one)}">{escape(text)}</span><small>{escape(one.direction)}</small>'


def _size(one: Finding) -> str:
    """A change with its interval below it."""
    size = f'<span class="py-{_tone(one)}">{escape(percent(one.change))}</span>'
    if one.low is None or one.high is None:
        return size
    return f"{size}<small>{escape(f'{percent(one.low)} to {percent(one.high)}')}</small>"


def _tone(one: Finding) -> wording.Tone:
    # Only findings that were measured again are good or bad.
    return _TONES.get(one.direction, "quiet") if one.state == FindingState.CONFIRMED else "quiet"


def _shape(one: Finding) -> str:
    detection = one.evidence.detected
    relative = "relative to the baseline, which changed as well" if detection and detection.relative else ""
    return "; ".join(part for part in (f"a {one.shape}", relative, stricter(detection)) if part)


def _marks(one: Finding, now: datetime) -> list[str]:
    marks = ["returned"] if one.returns_of is not None else []
    marks += [f"by {one.owner}"] if one.owner else []
    if one.muted_until is not None and one.muted_until > now:
        marks.append(f"muted until {one.muted_until:%Y-%m-%d}")
    return marks


def _interval(verdict: PairVerdict) -> str:
    if verdict.change is None:
        return wording.NONE
    return interval(verdict.change, verdict.low, verdict.high)


def _quantity(value: float | None, unit: str) -> str | None:
    return None if value is None else wording.quantity(value, unit)


def _microseconds(value: Any) -> str:
    return f"{value:,.1f}" if isinstance(value, int | float) else wording.NONE


def _metric(one: Finding, others: str = "") -> str:
    title = wording.metric(one.key.metric).title
    return f"<small>{escape(f'{title} · {one.schedule} · {one.track}{others}')}</small>"
