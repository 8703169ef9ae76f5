"""Everything about one finding, line by line, for somebody who meets it for the first time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any

from analysis.metrics import METRICS
from common.text import printable
from records.findings import Finding, TriageEntry
from reports.text.finding_text import (
    STATES,
    TRIAGES,
    because,
    goes_on,
    interval,
    kind,
    moved,
    stricter,
    verdict_word,
)
from reports.text.numbers import figure, percent

_INDENT = "    "


def finding_lines(one: Finding, log: Iterable[TriageEntry], place: tzinfo, now: datetime) -> Iterator[str]:
    """The report of a finding; times are told in `place`."""
    yield f"finding {one.id}: {kind(one.state, one.direction)}. {moved(one.key.metric, one.change)}"
    yield _row("case", one.key.case)
    yield _row("metric", f"{one.key.metric} ({_meaning(one.key.metric)})")
    yield _row("change", f"{interval(one.change, one.low, one.high)}, {one.direction}, a {one.shape}")
    if further := one.evidence.get("goes_on"):
        yield _row("goes on", goes_on(further))
    yield _row("where", f"{one.machine}, {one.key.hardware_label}, preset {one.key.preset_name}")
    yield _row(
        "followed as",
        f"{one.track} by schedule {one.schedule}" + (f", machines {one.label}" if one.label else ""),
    )
    yield _row("before", f"{_time(one.before, place)}, run {one.before_run}, torch {one.old_torch_version}")
    name = "seen from" if one.shape == "drift" else "since"
    yield _row(name, f"{_time(one.at, place)}, run {one.at_run}")
    # Seen some nights late, the first night may be off by one: what surely lies behind it is a later run.
    yield _row("after", f"run {one.evidence.get('new_run') or one.at_run}, torch {one.new_torch_version}")
    yield _row("state", f"{one.state}: {STATES.get(one.state, one.state)}")
    yield from _evidence(one)
    yield from _triage(one, log, place, now)


def _evidence(one: Finding) -> Iterator[str]:
    evidence = one.evidence
    if why := because(one.state, evidence):
        yield _row("because", why)
    yield from _detected(evidence.get("detected") or {}, one.key.metric)
    if verdict := evidence.get("verdict"):
        yield from _verdict(verdict, evidence)
    yield from _changes(evidence.get("changes") or ())
    yield from _table("neighbours in that session", evidence.get("neighbours") or (), _neighbour)
    yield from _table("operators alone that moved too", evidence.get("moved_with") or (), _other)
    yield from _operators(evidence.get("operators"))
    if offer := evidence.get("bisect"):
        yield "to find between which versions it came:"
        yield f"{_INDENT}{offer}"


def _detected(detected: Mapping[str, Any], metric: str) -> Iterator[str]:
    if not detected:
        return
    unit = METRICS[metric].unit if metric in METRICS else ""
    before, after = (f"{_number(detected.get(side))} {unit}".strip() for side in ("before", "after"))
    yield _row(
        "seen in", f"{detected.get('nights')} nights; as measured, {before} before, {after} the newest"
    )
    if detected.get("relative"):
        yield _row("", "the change is that beside the baseline of the same nights, which moved as well")
    if why := stricter({"detected": detected}):
        yield _row("", why)
    if detected.get("noise") is not None:
        yield _row("noise", f"{percent(float(detected['noise']))} from night to night (standard deviation)")


def _verdict(verdict: Mapping[str, Any], evidence: Mapping[str, Any]) -> Iterator[str]:
    unit = verdict.get("unit", "")
    sides = [str(each.get("name")) for each in evidence.get("compared") or ()]
    yield f"measured again, {' and '.join(sides) or 'both'} in turns, run {evidence.get('run')}:"
    said = f": {verdict['reason']}" if verdict.get("reason") else ""
    yield f"{_INDENT}{verdict_word(verdict)}{said}, from {verdict.get('pairs')} pairs of processes"
    yield f"{_INDENT}{_number(verdict.get('old'))} -> {_number(verdict.get('new'))} {unit}"
    if verdict.get("smallest") is not None:
        smallest = percent(float(verdict["smallest"])).lstrip("+")
        yield f"{_INDENT}the smallest change it could have seen: {smallest}"
    if evidence.get("rebuilt"):
        yield f"{_INDENT}a side was built anew: other packages may lie beside its PyTorch"
    if again := evidence.get("reproduce"):
        yield f"{_INDENT}again: {printable(str(again))}"


def _changes(changes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not changes:
        return
    yield "what differs between before and after:"
    for each in changes:
        before, after = (str(each.get(side) or "none") for side in ("before", "after"))
        yield _INDENT + printable(f"{each.get('kind')}: {each.get('name')}: {before} -> {after}")


def _table(title: str, rows: Sequence[Mapping[str, Any]], told: Any) -> Iterator[str]:
    if rows:
        yield f"{title}:"
        yield from (f"{_INDENT}{printable(told(row))}" for row in rows)


def _neighbour(row: Mapping[str, Any]) -> str:
    return f"{row.get('case')}: {verdict_word(row)} {_interval(row)}".rstrip()


def _other(row: Mapping[str, Any]) -> str:
    which = f"finding {row.get('finding')}, {kind(str(row.get('state')), str(row.get('direction')))}"
    return f"{row.get('case')}: {row.get('metric')} {_interval(row)} ({which})"


def _interval(row: Mapping[str, Any]) -> str:
    change = row.get("change")
    return interval(float(change), row.get("low"), row.get("high")) if change is not None else ""


def _operators(told: Mapping[str, Any] | None) -> Iterator[str]:
    if not told:
        return
    runs = f"runs {told.get('old_run')} and {told.get('new_run')}"
    yield f"operators, new less old, microseconds a step ({runs}):"
    for row in told.get("rows") or ():
        yield f"{_INDENT}{float(row.get('delta_us') or 0):+12,.1f}  {printable(str(row.get('name')))}"


def _triage(one: Finding, log: Iterable[TriageEntry], place: tzinfo, now: datetime) -> Iterator[str]:
    yield _row("triage", f"{one.triage}: {TRIAGES.get(one.triage, one.triage)}")
    if began_as := one.evidence.get("began_as"):
        yield _row("began as", f"finding {began_as} of the same series: the drift went on")
    if one.returns_of is not None:
        yield _row("returned", f"finding {one.returns_of} of the same series was called fixed")
    if one.muted_until is not None and one.muted_until > now:
        yield _row("muted", f"until {_time(one.muted_until, place)}")
    if one.link:
        yield _row("link", one.link)
    for entry in log:
        said = f": {printable(entry.text)}" if entry.text else ""
        yield f"{_INDENT}{_time(entry.at, place)} {printable(entry.who)}: {entry.action}{said}"


def _row(name: str, value: str) -> str:
    return f"{name:12} {printable(value)}"


def _time(moment: datetime, place: tzinfo) -> str:
    return f"{moment.astimezone(place):%Y-%m-%d %H:%M %Z}"


def _meaning(metric: str) -> str:
    known = METRICS.get(metric)
    return f"{known.meaning}, {known.unit}, {known.better} is better" if known else "of a file"


def _number(value: Any) -> str:
    return figure(float(value)) if isinstance(value, int | float) else "-"
