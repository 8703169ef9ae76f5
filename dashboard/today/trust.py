"""Can last night be trusted: how much of it was disturbed, and whether the canary moved."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from analysis.comparison.thresholds import threshold_of
from analysis.recent_level import against
from dashboard.components import wording
from dashboard.today.track_status import TrackStatus
from db.runs.series_queries import Lines
from records.kinds import EnvironmentKind
from reports.text.numbers import percent
from reports.text.staleness_text import counted


@dataclass(frozen=True, slots=True)
class NightTrust:
    """The answer in a word (yes, partly, not known) with its tone, and a sentence for each reason."""

    word: str
    tone: wording.Tone
    sentences: tuple[str, ...]


def trust(tracks: Iterable[TrackStatus], canary: Sequence[str]) -> NightTrust:
    """How far the newest nights can be trusted; `canary` are sentences about canaries outside their noise.

    Of a track whose newest night measured nothing, an earlier night says nothing.
    """
    measured = [one for one in tracks if one.scheduled and one.measured and not one.unmeasured]
    if not measured:
        return NightTrust("not known", "quiet", ("No night was measured.",))
    disturbed = [
        f"{one.measured.machine}: {counted(one.disturbed)}"
        for one in measured
        if one.disturbed and one.measured
    ]
    blank = [f"{one.newest.track or one.newest.part}: no number" for one in measured if one.blank]
    reasons = tuple(dict.fromkeys((*blank, *disturbed, *canary)))
    if reasons:
        return NightTrust("partly", "odd", reasons)
    counted_machines = wording.plural(len(machines(measured)), "machine")
    return NightTrust("yes", "good", (f"No disturbance above the limit on {counted_machines}.",))


def machines(tracks: Iterable[TrackStatus]) -> set[str]:
    """The machines that measured the newest nights of tracks, by name."""
    measured = (one.measured for one in tracks if one.scheduled and not one.unmeasured)
    return {task.machine for task in measured if task}


def canary_sentences(found: Lines, newest: str) -> tuple[list[str], list[str]]:
    """What the canaries did in the run `newest` against the nights before: outside noise, and within it."""
    outside: list[str] = []
    within: list[str] = []
    for key, points in sorted(found.items(), key=lambda each: each[0].case):
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
