"""The summary of the Today page and the quality of the last night, each as a line and sentences."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape

from analysis.comparison.thresholds import threshold_of
from analysis.recent_level import against
from analysis.staleness import Outage, part_label
from dashboard.components import links, markup, wording
from dashboard.regressions.causes import causes
from dashboard.today.track_status import TrackStatus
from db.runs.series_queries import Lines
from records.findings import Finding, FindingGroup, FindingState
from records.kinds import EnvironmentKind
from records.tasks import TaskState
from reports.text.numbers import percent
from reports.text.staleness_text import describe_disturbance, silence

#: The most sentences below the verdict.
_SENTENCES = 6


@dataclass(frozen=True, slots=True)
class NewFindings:
    """Recent findings that are neither triaged nor muted, each list with the largest change first.

    `waiting` are candidates of any age that will be measured again. `known` counts new or waiting ones that
    were triaged or muted, `older` the earlier regressions that are still open and not muted.
    """

    regressions: tuple[Finding, ...] = ()
    improvements: tuple[Finding, ...] = ()
    machine: tuple[Finding, ...] = ()
    waiting: tuple[Finding, ...] = ()
    known: int = 0
    older: int = 0

    @property
    def items(self) -> tuple[Finding, ...]:
        """All of them in the order of importance."""
        return (*self.regressions, *self.improvements, *self.machine, *self.waiting)


def new_findings(
    recent: Iterable[Finding],
    waiting: Iterable[Finding],
    still_open: int,
    since: datetime,
    now: datetime,
) -> NewFindings:
    """The findings since a moment: those of `recent` that were confirmed or attributed to the machine since
    then; `waiting` are the candidates.

    `still_open` is the number of confirmed regressions that are open and not muted, old and new.
    """
    new = [one for one in recent if (one.decided_at or one.found_at) >= since]
    rest = list(waiting)
    active_findings = _active_findings(new, now)
    candidates = _active_findings(rest, now)
    confirmed_findings = [one for one in active_findings if one.state == FindingState.CONFIRMED]
    regressions = tuple(one for one in confirmed_findings if one.direction == "worse")
    return NewFindings(
        regressions=regressions,
        improvements=tuple(one for one in confirmed_findings if one.direction == "better"),
        machine=tuple(one for one in active_findings if one.state == FindingState.MACHINE),
        waiting=candidates,
        known=len(new) - len(active_findings) + len(rest) - len(candidates),
        older=max(0, still_open - len(regressions)),
    )


@dataclass(frozen=True, slots=True)
class OverviewVerdict:
    """The summary in one line, worst first; `sentences` are about late nights and silent machines.

    `things` is the number of items that need attention: causes of new regressions, kinds of failures of
    nights and machines, and older open regressions, which count as one.
    """

    tone: wording.Tone
    headline: str
    counted: str
    sentences: tuple[str, ...]
    things: int = 0

    @property
    def needs(self) -> str:
        """The number of items that need attention as text: `nothing needs you`, `2 things need you`."""
        if not self.things:
            return "nothing needs you"
        return f"{wording.plural(self.things, 'thing')} {'needs' if self.things == 1 else 'need'} you"

    @property
    def text(self) -> str:
        """With a sign in addition to the colour."""
        return f"{wording.SIGNS[self.tone]} {self.headline}"


def verdict(
    parts: Sequence[TrackStatus], silent: Sequence[Outage], findings: NewFindings, newly_failed: int = 0
) -> OverviewVerdict:
    """The verdict on the nights, the machines and the findings.

    `newly_failed` is the number of cases that newly failed, at least with some replicates; lost cases do not
    count.
    """
    tracks = [one for one in parts if one.scheduled]
    states = [one.state for one in tracks]
    lost_count = sum(one.lost_count for one in tracks)
    disturbed_machines = sorted(
        {one.night_task.machine for one in tracks if one.disturbed and one.night_task}
    )
    bad = [
        _many(len(findings.regressions), "confirmed regression"),
        _many(len(silent), "machine", "silent"),
        _many(states.count("late"), "track", "late"),
        _many(sum(one.unschedulable for one in tracks), "track", "that no scheduler can run"),
        _many(sum(states.count(state) for state in (TaskState.FAILED, TaskState.LOST)), "night", "failed"),
        _many(states.count("missed"), "night", "missed"),
        _many(lost_count, "case", "no longer measured"),
        _many(sum(one.blank and not one.lost_count for one in tracks), "night", "without a number"),
    ]
    odd = [
        _many(newly_failed, "case", "newly with failures"),
        _many(len(findings.machine), "change", "of a machine"),
        _many(len(disturbed_machines), "machine", "disturbed"),
        _many(states.count(TaskState.CANCELLED), "night", "cancelled"),
        _many(len(findings.waiting), "candidate", "not confirmed yet"),
        _many(findings.older, "older regression", "still open"),
    ]
    good = [_many(len(findings.improvements), "confirmed improvement")]
    problems = [each for each in (*bad, *odd) if each]
    all_parts = [each for each in (*problems, *good) if each]
    tone: wording.Tone = "bad" if any(bad) else "odd" if any(odd) else "good" if tracks else "quiet"
    open_still = TaskState.RUNNING in states or TaskState.WAITING in states
    quiet = f"All quiet{' so far' if open_still else ''}" if tracks else "No schedule is active any more"
    headline = ", ".join(all_parts) if problems else ": ".join(each for each in (quiet, *good) if each)
    sentences = (
        *map(silence, silent),
        *(silence(one.late) for one in tracks if one.late),
        *(_unschedulable(one) for one in tracks if one.unschedulable),
    )
    # Older regressions count until they are acknowledged.
    things = len(causes(findings.regressions)) + sum(bool(each) for each in bad[1:]) + bool(findings.older)
    return OverviewVerdict(tone, headline, _track_counts(states), sentences, things)


def _unschedulable(one: TrackStatus) -> str:
    task = one.newest
    whom = f" for {task.label}" if task.label else ""
    return f"{part_label(task.schedule, task.part)} waits: no scheduler that measures is running{whom}"


def _track_counts(states: Sequence[str]) -> str:
    """`4 of 5 tracks done, 1 running`."""
    if not states:
        return ""
    others = [
        f"{states.count(state)} {state}"
        for state in (TaskState.RUNNING, TaskState.WAITING)
        if state in states
    ]
    done_text = f"{states.count(TaskState.DONE)} of {wording.plural(len(states), 'track')} done last night"
    return ", ".join([done_text, *others])


def banner(summary: OverviewVerdict, findings: NewFindings) -> str:
    """The verdict as HTML, with further numbers of findings."""
    more = [escape(summary.counted)] if summary.counted else []
    if findings.known:
        more.append(escape(f"{wording.plural(findings.known, 'finding')} triaged or muted"))
    if findings.older:
        text = f"{wording.plural(findings.older, 'older regression')} open"
        if findings.regressions:
            text += f", {findings.older + len(findings.regressions):,} including the new ones"
        more.append(markup.link(links.findings(state=FindingGroup.OPEN), f"{text} →"))
    part_label = summary.sentences[:_SENTENCES]
    rest = len(summary.sentences) - len(part_label)
    sentences = [f"{each[0].upper()}{each[1:]}." for each in part_label] + (
        [f"And {rest:,} more."] if rest else []
    )
    return (
        f'<div class="py-morning py-{summary.tone}"><p class="py-value">{escape(summary.text)}</p></div>'
        f'<p class="py-quiet">{" · ".join(more)}</p>{markup.notes(sentences) if sentences else ""}'
    )


def _many(many: int, word: str, after: str = "") -> str:
    return f"{wording.plural(many, word)} {after}".strip() if many else ""


def _active_findings(items: Iterable[Finding], now: datetime) -> tuple[Finding, ...]:
    """Those that are neither triaged nor muted, largest change first."""
    return tuple(sorted((one for one in items if not one.silenced(now)), key=_largest_first))


def _largest_first(one: Finding) -> tuple[float, int]:
    return -abs(one.change), one.id


@dataclass(frozen=True, slots=True)
class NightTrust:
    """The answer in a word (yes, partly, not known) with its tone, and a sentence for each reason."""

    word: str
    tone: wording.Tone
    sentences: tuple[str, ...]


def trust(tracks: Iterable[TrackStatus], canary: Sequence[str]) -> NightTrust:
    """The quality of the newest nights; `canary` are sentences about canaries outside their noise.

    If the newest night of a track measured nothing, its earlier nights do not count.
    """
    measured_tracks = [one for one in tracks if one.scheduled and one.night_task and not one.unmeasured]
    if not measured_tracks:
        return NightTrust("not known", "quiet", ("No night was measured.",))
    disturbances = [
        f"{one.night_task.machine}: {describe_disturbance(one.disturbed)}"
        for one in measured_tracks
        if one.disturbed and one.night_task
    ]
    blank = [f"{one.newest.track or one.newest.part}: no number" for one in measured_tracks if one.blank]
    reasons = tuple(dict.fromkeys((*blank, *disturbances, *canary)))
    if reasons:
        return NightTrust("partly", "odd", reasons)
    counted_machines = wording.plural(len(measured_machines(measured_tracks)), "machine")
    return NightTrust("yes", "good", (f"No disturbance above the limit on {counted_machines}.",))


def measured_machines(tracks: Iterable[TrackStatus]) -> set[str]:
    """The machines that measured the newest nights of tracks, by name."""
    tasks = (one.night_task for one in tracks if one.scheduled and not one.unmeasured)
    return {task.machine for task in tasks if task}


def canary_sentences(series_points: Lines, newest: str) -> tuple[list[str], list[str]]:
    """The canaries in the run `newest` against the nights before: those outside noise, and those within
    it.
    """
    outside: list[str] = []
    within: list[str] = []
    for key, points in sorted(series_points.items(), key=lambda each: each[0].case):
        own = [each for each in points if each.environment_kind == EnvironmentKind.CANARY]
        latest = next((each for each in reversed(own) if each.run == newest), None)
        if latest is None:
            continue
        before = [
            each.point
            for each in own
            if each.machine == latest.machine and each.started_at < latest.started_at
        ]
        change = against(before, latest.point, threshold_of(key.metric).log)
        if change is None or change.band is None:
            continue
        text = f"canary {wording.case(key.case).name} {percent(change.change)}"
        if change.outside:
            outside.append(f"{latest.machine}: {text}, outside noise: the machine itself changed")
        else:
            within.append(f"{text}, within noise")
    return outside, within
