"""The details of one finding, line by line."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, tzinfo
from typing import Any

from analysis.dispatch_difference import CaseDifference
from analysis.metrics import METRICS
from common.text import printable
from records.evidence import (
    Confirmation,
    Detection,
    OperatorDifference,
    PairVerdict,
    RelatedFinding,
    RelatedVerdict,
)
from records.findings import Finding, TriageEntry
from records.runs import RunChange
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
from reports.text.numbers import figure, percent

_INDENT = "    "
#: The most changes of operators and kernels.
_MOST_CHANGES = 12


def finding_lines(one: Finding, log: Iterable[TriageEntry], place: tzinfo, now: datetime) -> Iterator[str]:
    """The report of a finding; times are printed in `place`."""
    yield f"finding {one.id}: {kind(one.state, one.direction)}. {describe_change(one.key.metric, one.change)}"
    yield _row("case", one.key.case)
    yield _row("metric", f"{one.key.metric} ({_meaning(one.key.metric)})")
    yield _row("change", f"{interval(one.change, one.low, one.high)}, {one.direction}, a {one.shape}")
    if further := one.evidence.goes_on:
        yield _row("goes on", goes_on(further))
    yield _row("where", f"{one.machine}, {one.key.hardware_label}, preset {one.key.preset_name}")
    yield _row(
        "followed as",
        f"{one.track} by schedule {one.schedule}" + (f", machines {one.label}" if one.label else ""),
    )
    yield _row("before", f"{_time(one.before, place)}, run {one.before_run}, torch {one.old_torch_version}")
    name = "seen from" if one.shape == "drift" else "since"
    yield _row(name, f"{_time(one.at, place)}, run {one.at_run}")
    # For a change that was detected some nights late, the first night may be off by one; `new_run` is
    # certainly after it.
    yield _row("after", f"run {one.evidence.new_run or one.at_run}, torch {one.new_torch_version}")
    yield _row("state", f"{one.state}: {STATES.get(one.state, one.state)}")
    yield from _evidence(one)
    yield from _triage(one, log, place, now)


def _evidence(one: Finding) -> Iterator[str]:
    evidence = one.evidence
    if why := because(one.state, evidence):
        yield _row("because", why)
    if evidence.detected is not None:
        yield from _detection_lines(evidence.detected, one.key.metric)
    session = evidence.confirmation
    if session.verdict is not None:
        yield from _verdict(session.verdict, session)
    yield from _changes(evidence.changes)
    yield from _table("related cases in that session", map(_related_case, session.related))
    yield from _table("single operators that changed too", map(_other, session.moved_with))
    if session.dispatch:
        found = case_words(CaseDifference.from_body(session.dispatch), _MOST_CHANGES)
        yield from _table("what runs differently", found or ["no recorded difference"])
    if session.operators is not None:
        yield from _operators(session.operators)
    if offer := session.bisect:
        yield "to find the version that changed it:"
        yield f"{_INDENT}{offer}"


def _detection_lines(detected: Detection, metric: str) -> Iterator[str]:
    unit = METRICS[metric].unit if metric in METRICS else ""
    before, after = (f"{_number(side)} {unit}".strip() for side in (detected.before, detected.after))
    yield _row("seen in", f"{detected.nights} nights; measured {before} before, {after} in the newest")
    if detected.relative:
        yield _row("", "the change is relative to the baseline of the same nights, which changed as well")
    if why := stricter(detected):
        yield _row("", why)
    if detected.noise is not None:
        yield _row("noise", f"{percent(detected.noise)} from night to night (standard deviation)")


def _verdict(verdict: PairVerdict, session: Confirmation) -> Iterator[str]:
    sides = [each.name for each in session.compared]
    yield printable(f"measured again, {' and '.join(sides) or 'both'} in turns, run {session.run}:")
    reason = f": {verdict.reason}" if verdict.reason else ""
    yield f"{_INDENT}{verdict_word(verdict)}{reason}, from {verdict.pairs} pairs of processes"
    yield f"{_INDENT}{_number(verdict.old)} -> {_number(verdict.new)} {verdict.unit}"
    if verdict.smallest is not None:
        smallest = percent(verdict.smallest).lstrip("+")
        yield f"{_INDENT}the smallest change it could have detected: {smallest}"
    if session.rebuilt:
        yield f"{_INDENT}one side was rebuilt: its other packages may differ"
    if again := session.reproduce:
        yield f"{_INDENT}again: {printable(again)}"


def _changes(changes: Sequence[RunChange]) -> Iterator[str]:
    if not changes:
        return
    yield "differences between before and after:"
    for each in changes:
        before, after = (side or "none" for side in (each.before, each.after))
        yield _INDENT + printable(f"{each.kind}: {each.name}: {before} -> {after}")


def _table(title: str, rows: Iterable[str]) -> Iterator[str]:
    lines = [f"{_INDENT}{printable(row)}" for row in rows]
    yield from ([f"{title}:", *lines] if lines else ())


def _related_case(row: RelatedVerdict) -> str:
    verdict = row.verdict
    change = "" if verdict.change is None else interval(verdict.change, verdict.low, verdict.high)
    return f"{row.case}: {verdict_word(verdict)} {change}".rstrip()


def _other(row: RelatedFinding) -> str:
    which = f"finding {row.finding}, {kind(row.state, row.direction)}"
    return f"{row.case}: {row.metric} {percent(row.change)} ({which})"


def _operators(difference: OperatorDifference) -> Iterator[str]:
    runs = f"runs {difference.old_run} and {difference.new_run}"
    yield f"operators, new minus old, microseconds per step ({runs}):"
    for row in difference.rows:
        yield f"{_INDENT}{float(row.get('delta_us') or 0):+12,.1f}  {printable(str(row.get('name')))}"


def _triage(one: Finding, log: Iterable[TriageEntry], place: tzinfo, now: datetime) -> Iterator[str]:
    yield _row("triage", f"{one.triage}: {TRIAGES.get(one.triage, one.triage)}")
    if began_as := one.evidence.began_as:
        yield _row("began as", f"finding {began_as} of the same series: the drift continued")
    if one.returns_of is not None:
        yield _row("returned", f"finding {one.returns_of} of the same series was marked as fixed")
    if one.muted_until is not None and one.muted_until > now:
        yield _row("muted", f"until {_time(one.muted_until, place)}")
    if one.link:
        yield _row("link", one.link)
    for entry in log:
        text = f": {printable(entry.text)}" if entry.text else ""
        yield f"{_INDENT}{_time(entry.at, place)} {printable(entry.who)}: {entry.action}{text}"


def _row(name: str, value: str) -> str:
    return f"{name:12} {printable(value)}"


def _time(moment: datetime, place: tzinfo) -> str:
    return f"{moment.astimezone(place):%Y-%m-%d %H:%M %Z}"


def _meaning(metric: str) -> str:
    definition = METRICS.get(metric)
    return (
        f"{definition.meaning}, {definition.unit}, {definition.better} is better"
        if definition
        else "of a file"
    )


def _number(value: Any) -> str:
    return figure(float(value)) if isinstance(value, int | float) else "-"
