"""The cases of a track's newest night against the nights before: what is confirmed, and what is noise."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from statistics import median

import pandas as pd

from analysis.comparison.thresholds import threshold_of
from analysis.decision.run_cases import FAILED
from analysis.ratios import ratio
from analysis.recent_level import NIGHTS, RecentChange, against
from analysis.staleness import LostCase
from dashboard.components import links, markup, wording
from dashboard.components.markup import HeatCell, HeatHead, HeatMap
from dashboard.today.track_status import TrackStatus
from db.runs.series_queries import Lines, identity
from records.findings import Finding, FindingState, FindingTriage
from records.kinds import EnvironmentKind
from records.series import SeriesKey, SeriesPoint
from records.tasks import TaskState
from reports.table import Column, DataTable
from reports.text.numbers import percent

#: The metrics of a headline, the steadier first: a case without one uses the next.
METRICS = ("latency_floor", "latency")
#: Tracks whose cases are listed, rows of each at least and of all together, nights of a picture.
TRACKS, _LEAST, _ROWS, COURSE = 4, 3, 12, 60
#: Less of a confirmed change than this share is not there any more.
_LEFT = 0.5


@dataclass(frozen=True, slots=True)
class CaseNight:
    """A case in the newest night of a track, `latest`, and how far it is from its level before.

    `finding` is the confirmed change that the case is in: then the level is that of the nights before the
    change. `candidate` is a change that is not confirmed yet. `against` is None without nights to compare
    with: those of the same machine and harness.
    """

    key: SeriesKey
    latest: SeriesPoint
    against: RecentChange | None
    finding: Finding | None = None
    candidate: Finding | None = None

    @property
    def left(self) -> bool:
        """Whether the newest night still has half of the confirmed change or more."""
        if self.finding is None or self.against is None:
            return True
        return self.against.change * self.finding.change >= _LEFT * self.finding.change**2

    @property
    def verdict(self) -> str:
        """The status of the case in a word or two; worse and better are confirmed and still there."""
        if self.finding is not None:
            return self.finding.direction if self.left else "less last night"
        if self.against is None or self.against.band is None:
            return "too few nights"
        return "outside noise" if self.against.outside else "within noise"

    @property
    def tone(self) -> wording.Tone:
        """Only what is confirmed, and still there, is good or bad."""
        tones: Mapping[str, wording.Tone] = {"worse": "bad", "better": "good"}
        return tones.get(self.verdict, "quiet")


@dataclass(frozen=True, slots=True)
class TrackHeadlines:
    """A track's headlines: what is confirmed first, the largest first. `lines` has the course of each row."""

    part: TrackStatus
    headlines: tuple[CaseNight, ...]
    rows: tuple[CaseNight, ...]
    lines: Mapping[SeriesKey, str]


def headline_tracks(parts: Iterable[TrackStatus]) -> list[TrackStatus]:
    """The tracks whose cases are listed: the first of `moving_tracks`."""
    return moving_tracks(parts)[:TRACKS]


def moving_tracks(parts: Iterable[TrackStatus]) -> list[TrackStatus]:
    """The tracks whose cases may have moved: those with the most nights, of as many those measured last.

    Without the pinned ones, which are the baseline, unless all are pinned.
    """
    able = [(one.night_task.due_at, one) for one in parts if one.scheduled and one.night_task]
    unpinned = [each for each in able if each[1].newest.track != each[1].newest.baseline]
    richest = sorted(
        unpinned or able, key=lambda each: (-_nights(each[1]), -each[0].timestamp(), each[1].name)
    )
    return [one for _, one in richest]


def _nights(one: TrackStatus) -> int:
    return min(NIGHTS + 1, len(runs_of(one)))


def runs_of(one: TrackStatus) -> tuple[str, ...]:
    """The newest runs of a track, newest first, as many as its pictures show."""
    return tuple(task.run_id for task in one.tasks if task.run_id and task.state != TaskState.RUNNING)[
        :COURSE
    ]


def recent_runs(one: TrackStatus, newest: str) -> tuple[str, ...]:
    """The run `newest` of a track, and those of the nights that its level is of."""
    return tuple(dict.fromkeys((newest, *runs_of(one)[: NIGHTS + 1])))


def headlines_since_changes(
    one: TrackStatus,
    newest: str,
    found: Lines,
    findings: Sequence[Finding],
    lines: Callable[[tuple[SeriesKey, ...], tuple[str, ...]], Lines],
) -> tuple[CaseNight, ...]:
    """As `headlines`, with the nights before a change that is older than `found`, which `lines` reads."""
    made = headlines(one, newest, found, findings)
    if changed := tuple(each.key for each in made if each.finding):
        made = headlines(one, newest, {**found, **lines(changed, runs_of(one))}, findings)
    return made


def headlines(
    one: TrackStatus, newest: str, found: Lines, findings: Iterable[Finding]
) -> tuple[CaseNight, ...]:
    """The cases of the run `newest` of a track, of each one metric; `found` are their points.

    `findings` are those in these series, oldest first.
    """
    task = one.newest
    own: dict[tuple[str, ...], list[Finding]] = {}
    for each in findings:
        if (each.schedule, each.track, each.label) == (task.schedule, task.track, task.label):
            own.setdefault(identity(each.key), []).append(each)
    made = [
        _headline(key, points, point, own.get(identity(key), ()))
        for key, points in found.items()
        if (point := _point_of(points, newest)) and point.environment_kind != EnvironmentKind.CANARY
    ]
    best = {each.key.case: each for each in sorted(made, key=lambda each: -METRICS.index(each.key.metric))}
    return tuple(sorted(best.values(), key=_order))


def _headline(
    key: SeriesKey, points: Sequence[SeriesPoint], latest: SeriesPoint, findings: Sequence[Finding]
) -> CaseNight:
    before = [
        each
        for each in points
        if each.started_at < latest.started_at
        and (each.machine, each.harness) == (latest.machine, latest.harness)
    ]
    # Where several machines take turns in a track, each has nights and findings of its own.
    findings = [each for each in findings if each.machine == latest.machine]
    confirmed = [
        each for each in findings if each.state == FindingState.CONFIRMED and each.at <= latest.started_at
    ]
    last = max(confirmed, key=_at, default=None)
    least = threshold_of(key.metric).log
    # A later change that is not listed any more hides no regression that is open.
    listed = max((each for each in confirmed if _stands(each, before)), key=_at, default=None)
    if listed is not None:
        earlier = [each.point for each in before if each.started_at < listed.at]
        return CaseNight(key, latest, against(earlier, latest.point, least), listed)
    # From a change on that people know, its new level is what a night is compared with.
    since = [each.point for each in before if last is None or each.started_at >= last.at]
    waiting = [each for each in findings if each.state in (FindingState.CANDIDATE, FindingState.CONFIRMING)]
    return CaseNight(key, latest, against(since, latest.point, least), None, waiting[-1] if waiting else None)


def _at(one: Finding) -> datetime:
    return one.at


def _stands(one: Finding, before: Sequence[SeriesPoint]) -> bool:
    """Whether a confirmed change is still listed: a regression until it is triaged, else for some nights."""
    if one.triage in (FindingTriage.EXPECTED, FindingTriage.FIXED):
        return False
    recent = before[-NIGHTS:]
    return one.direction == "worse" or not recent or one.at >= recent[0].started_at


def rows(items: Sequence[CaseNight], tracks: int) -> tuple[CaseNight, ...]:
    """Those that have a row of their own: what is confirmed, and as room is left, what is outside noise."""
    apart = [each for each in items if each.verdict not in ("within noise", "too few nights")]
    confirmed = sum(each.finding is not None for each in apart)
    return tuple(apart[: max(confirmed, _LEAST, _ROWS // max(1, tracks))])


def summary(items: Sequence[CaseNight]) -> str:
    """`36 of 39 cases within noise (±1.2 % in the median), 1 confirmed worse, 2 outside noise`."""
    verdicts = [each.verdict for each in items]
    bands = [each.against.band for each in items if each.verdict == "within noise" and each.against]
    known = [band for band in bands if band is not None]
    size = f" (±{wording.significant(100 * math.expm1(median(known)), 2)} % in the median)" if known else ""
    inside = f"{verdicts.count('within noise')} of {wording.plural(len(items), 'case')} within noise{size}"
    others = (
        ("worse", "confirmed worse"),
        ("better", "confirmed better"),
        ("less last night", "confirmed, less than half of it last night"),
        ("outside noise", "outside noise and not confirmed"),
        ("too few nights", "with too few nights to say"),
    )
    counted = [f"{verdicts.count(word)} {words}" for word, words in others if word in verdicts]
    return ", ".join([inside, *counted])


def history(items: Sequence[CaseNight]) -> str:
    """The address of the history of cases that were measured in one place; of any without a case."""
    if not items:
        return links.HISTORY
    key = items[0].key
    return links.trends(key.metric, key.hardware, key.preset)


def table(one: TrackHeadlines, now: datetime, where: str) -> DataTable[CaseNight]:
    """The rows of a track."""
    columns: list[Column[CaseNight]] = [
        Column("", "Case", html=lambda each: markup.case(each.key.case)),
        Column("", "Last night", html=_latest, number=True),
        Column("", "Change", html=_change, number=True),
        Column("", "Against", html=_level, number=True),
        Column("", f"Last {COURSE} nights", html=lambda each: one.lines.get(each.key, wording.NONE)),
        Column("", "PyTorch", html=lambda each: _where(each.latest, now)),
        Column("", "", html=_further),
    ]
    return DataTable(f"Cases that moved: {where}", columns, one.rows)


def _where(point: SeriesPoint, now: datetime) -> str:
    run = markup.link(links.run(point.run), wording.ago(point.started_at, now))
    return f"{escape(point.torch_version or wording.NONE)}<small>{run}</small>"


def _latest(one: CaseNight) -> str:
    metric = wording.metric(one.key.metric)
    value = escape(wording.quantity(one.latest.point, metric.unit))
    return f"<strong>{value}</strong><small>{escape(metric.title)} · n {one.latest.n}</small>"


def _change(one: CaseNight) -> str:
    tonight = percent(one.against.change) if one.against else ""
    if one.finding is not None:
        state = f"confirmed {one.finding.direction} since {one.finding.at:%Y-%m-%d}"
        small = f"{state}; last night {tonight}" if tonight else state
        return (
            f'<span class="py-{one.tone}">{escape(percent(one.finding.change))}</span><small>{small}</small>'
        )
    band = one.against.band if one.against else None
    noise = f" (±{wording.significant(100 * math.expm1(band), 2)} %)" if band is not None else ""
    return f"{escape(tonight)}<small>outside noise{noise}, not confirmed</small>"


def _level(one: CaseNight) -> str:
    if one.against is None:
        return wording.NONE
    value = escape(wording.quantity(one.against.level, wording.metric(one.key.metric).unit))
    what = "before the change" if one.finding is not None else "before"
    return f"{value}<small>median of {wording.plural(one.against.nights, 'night')} {what}</small>"


def _further(one: CaseNight) -> str:
    links_html = [
        markup.link(links.trends(one.key.metric, one.key.hardware, one.key.preset, one.key.case), "Trend →")
    ]
    for finding in filter(None, (one.finding, one.candidate)):
        word = "Candidate" if finding is one.candidate else "Finding"
        links_html.append(markup.link(links.finding(finding.id), f"{word}\u00a0{finding.id}\u00a0→"))
    return "<br>".join(links_html)


def pictures(shown: Collection[CaseNight], found: Lines) -> dict[SeriesKey, str]:
    """The course of the headlines that are shown, over the nights of their track."""
    made: dict[SeriesKey, str] = {}
    for one in shown:
        values = [point.point for point in found.get(one.key, ())]
        made[one.key] = markup.sparkline(
            values[-COURSE:], wording.metric(one.key.metric).unit, "nights", one.tone
        )
    return made


def frame(items: Iterable[TrackHeadlines]) -> pd.DataFrame:
    """All cases for a CSV file, also those without a row; ratios are new / old."""
    return pd.DataFrame(
        [_row(one.part, each) for one in items for each in one.headlines],
        columns=[
            *("schedule", "track", "label", "case", "metric", "unit", "hardware", "preset"),
            *("run", "torch", "point", "low", "high", "smallest", "largest", "n"),
            *("verdict", "level", "level_nights", "ratio", "noise_ratio", "finding", "finding_ratio"),
        ],
    )


def _row(part: TrackStatus, one: CaseNight) -> dict[str, object]:
    task, compared, finding = part.newest, one.against, one.finding
    about = ("run", "point", "low", "high", "smallest", "largest", "n")
    return {
        "schedule": task.schedule,
        "track": task.track,
        "label": task.label,
        "case": one.key.case,
        "metric": one.key.metric,
        "unit": wording.metric(one.key.metric).unit,
        "hardware": one.key.hardware_label,
        "preset": one.key.preset_name,
        "torch": one.latest.torch_version,
        **{name: getattr(one.latest, name) for name in about},
        "verdict": one.verdict,
        "level": compared.level if compared else None,
        "level_nights": compared.nights if compared else 0,
        "ratio": ratio(compared.change) if compared else None,
        "noise_ratio": ratio(compared.band) if compared and compared.band is not None else None,
        "finding": finding.id if finding else None,
        "finding_ratio": ratio(finding.change) if finding else None,
    }


def _point_of(points: Iterable[SeriesPoint], run: str) -> SeriesPoint | None:
    """The point in a run; of several environments the one given last counts."""
    return next((point for point in reversed(tuple(points)) if point.run == run), None)


def _order(one: CaseNight) -> tuple[object, ...]:
    """What is confirmed first, worse before better, then what is outside noise; the largest first."""
    places = ("worse", "less last night", "better", "outside noise")
    place = places.index(one.verdict) if one.verdict in places else len(places)
    size = one.finding.change if one.finding else one.against.change if one.against else 0.0
    return place, -abs(size), one.key.case, one.key.hardware


#: Workloads side by side in the matrix; further ones are in the CSV file of the changes.
MOST_WORKLOADS = 12


def matrix(label: str, nights: Sequence[CaseNight], lost: Sequence[LostCase] = ()) -> tuple[HeatMap, int]:
    """The newest night of each case of a track, what has a colour first, and how many workloads are left out.

    `lost` are the cases that used to be measured. Only what is confirmed is good or bad.
    """
    cells: dict[tuple[str, tuple[str, str]], HeatCell] = {}
    measured = ((each.key.case, _night_cell(each)) for each in nights)
    for key, cell in (*measured, *((each.case, _lost_cell(each)) for each in lost)):
        words = wording.case(key)
        cells[words.technique or "eager", (words.workload, words.parameters)] = cell
    coloured = {workload for (_, workload), cell in cells.items() if cell.tone != "quiet"}
    workloads = sorted({workload for _, workload in cells}, key=lambda each: (each not in coloured, each))
    techniques = sorted({technique for technique, _ in cells}, key=lambda name: (name != "eager", name))
    shown = workloads[:MOST_WORKLOADS]
    lines = [(HeatHead(name, chip=True), [cells.get((name, each)) for each in shown]) for name in techniques]
    return HeatMap(label, [HeatHead(*each) for each in shown], lines), len(workloads) - len(shown)


def _lost_cell(one: LostCase) -> HeatCell:
    """What crashed is broken; what the machine disturbed or lost, or was not reached, is not."""
    if one.status in FAILED:
        return HeatCell("×", "", "broke", "bad")
    ended = wording.status(one.status)
    if ended.tone == "bad":
        return HeatCell(wording.SIGNS["odd"], "", ended.word, "odd")
    return HeatCell(ended.sign, "", ended.word, ended.tone)


def _night_cell(one: CaseNight) -> HeatCell:
    # Also of a confirmed change of which less than half was there.
    known = one.finding or one.candidate
    link = links.finding(known.id) if known else ""
    if one.finding is not None and one.left:
        sign = "▲" if one.finding.change > 0 else "▼"
        return HeatCell(sign, one.finding.direction, percent(one.finding.change), one.tone, link=link)
    if one.against is not None and one.against.outside:
        return HeatCell("?", "not confirmed", percent(one.against.change), link=link)
    if one.verdict == "too few nights":
        return HeatCell("new", "")
    return HeatCell("·", one.verdict)
