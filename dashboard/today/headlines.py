"""The cases of a track's newest night against the nights before, with confirmed changes and noise."""

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

#: The metrics of a headline, least noisy first: a case without the first uses the next.
METRICS = ("latency_floor", "latency")
#: The most tracks whose cases are listed, the rows of each and of all together, and the nights of a
#: sparkline.
TRACKS, _LEAST, _ROWS, COURSE = 4, 3, 12, 60
#: If less than this share of a confirmed change remains, it counts as gone.
_LEFT = 0.5


@dataclass(frozen=True, slots=True)
class CaseNight:
    """A case in the newest night of a track, `latest`, and its change from the level before.

    `finding` is a confirmed change of the case: then the level is that of the nights before the change.
    `candidate` is a change that is not confirmed yet. `against` is None without earlier nights of the same
    machine and harness.
    """

    key: SeriesKey
    latest: SeriesPoint
    against: RecentChange | None
    finding: Finding | None = None
    candidate: Finding | None = None

    @property
    def left(self) -> bool:
        """Whether at least half of the confirmed change remains in the newest night."""
        if self.finding is None or self.against is None:
            return True
        return self.against.change * self.finding.change >= _LEFT * self.finding.change**2

    @property
    def verdict(self) -> str:
        """The status of the case in a word or two; worse and better are confirmed and still present."""
        if self.finding is not None:
            return self.finding.direction if self.left else "less last night"
        if self.against is None or self.against.band is None:
            return "too few nights"
        return "outside noise" if self.against.outside else "within noise"

    @property
    def tone(self) -> wording.Tone:
        """Only confirmed changes that are still present are good or bad."""
        tones: Mapping[str, wording.Tone] = {"worse": "bad", "better": "good"}
        return tones.get(self.verdict, "quiet")


@dataclass(frozen=True, slots=True)
class TrackHeadlines:
    """The headlines of a track: confirmed ones first, largest first. `lines` has the sparkline of each
    row.
    """

    part: TrackStatus
    headlines: tuple[CaseNight, ...]
    rows: tuple[CaseNight, ...]
    lines: Mapping[SeriesKey, str]


def headline_tracks(parts: Iterable[TrackStatus]) -> list[TrackStatus]:
    """The tracks whose cases are listed: the first of `moving_tracks`."""
    return moving_tracks(parts)[:TRACKS]


def moving_tracks(parts: Iterable[TrackStatus]) -> list[TrackStatus]:
    """The tracks whose cases may have changed: those with the most nights, among equals those measured last.

    Pinned ones, which are the baseline, are left out unless all are pinned.
    """
    able = [(one.night_task.due_at, one) for one in parts if one.scheduled and one.night_task]
    followed = [each for each in able if each[1].newest.track != each[1].newest.baseline]
    richest = sorted(
        followed or able, key=lambda each: (-_nights(each[1]), -each[0].timestamp(), each[1].name)
    )
    return [one for _, one in richest]


def _nights(one: TrackStatus) -> int:
    return min(NIGHTS + 1, len(runs_of(one)))


def runs_of(one: TrackStatus) -> tuple[str, ...]:
    """The newest runs of a track, newest first, as many as its sparklines show."""
    return tuple(task.run_id for task in one.tasks if task.run_id and task.state != TaskState.RUNNING)[
        :COURSE
    ]


def recent_runs(one: TrackStatus, newest: str) -> tuple[str, ...]:
    """The run `newest` of a track, and those of the nights of its level."""
    return tuple(dict.fromkeys((newest, *runs_of(one)[: NIGHTS + 1])))


def headlines_since_changes(
    one: TrackStatus,
    newest: str,
    series_points: Lines,
    findings: Sequence[Finding],
    lines: Callable[[tuple[SeriesKey, ...], tuple[str, ...]], Lines],
) -> tuple[CaseNight, ...]:
    """As `headlines`, with the nights before a change that is older than the points in `series_points`;
    `lines` reads them.
    """
    nights = headlines(one, newest, series_points, findings)
    if changed_keys := tuple(each.key for each in nights if each.finding):
        nights = headlines(one, newest, {**series_points, **lines(changed_keys, runs_of(one))}, findings)
    return nights


def headlines(
    one: TrackStatus, newest: str, series_points: Lines, findings: Iterable[Finding]
) -> tuple[CaseNight, ...]:
    """The cases of the run `newest` of a track, one metric of each; `series_points` are their points.

    `findings` are those in these series, oldest first.
    """
    task = one.newest
    own: dict[tuple[str, ...], list[Finding]] = {}
    for each in findings:
        if (each.schedule, each.track, each.label) == (task.schedule, task.track, task.label):
            own.setdefault(identity(each.key), []).append(each)
    nights = [
        _headline(key, points, point, own.get(identity(key), ()))
        for key, points in series_points.items()
        if (point := _point_of(points, newest)) and point.environment_kind != EnvironmentKind.CANARY
    ]
    best = {each.key.case: each for each in sorted(nights, key=lambda each: -METRICS.index(each.key.metric))}
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
    # If several machines take turns in a track, each has its own nights and findings.
    findings = [each for each in findings if each.machine == latest.machine]
    confirmed_findings = [
        each for each in findings if each.state == FindingState.CONFIRMED and each.at <= latest.started_at
    ]
    last = max(confirmed_findings, key=_at, default=None)
    least = threshold_of(key.metric).log
    # A later change that is not listed any more hides no regression that is open.
    listed = max((each for each in confirmed_findings if _stands(each, before)), key=_at, default=None)
    if listed is not None:
        earlier = [each.point for each in before if each.started_at < listed.at]
        return CaseNight(key, latest, against(earlier, latest.point, least), listed)
    # After a triaged change a night is compared with the new level.
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
    """The headlines with a row: confirmed ones, then those outside noise as far as there is room."""
    apart = [each for each in items if each.verdict not in ("within noise", "too few nights")]
    confirmed_count = sum(each.finding is not None for each in apart)
    return tuple(apart[: max(confirmed_count, _LEAST, _ROWS // max(1, tracks))])


def summary(items: Sequence[CaseNight]) -> str:
    """`36 of 39 cases within noise (±1.2 % in the median), 1 confirmed worse, 2 outside noise`."""
    verdicts = [each.verdict for each in items]
    bands = [each.against.band for each in items if each.verdict == "within noise" and each.against]
    sizes = [band for band in bands if band is not None]
    size = f" (±{wording.significant(100 * math.expm1(median(sizes)), 2)} % in the median)" if sizes else ""
    inside = f"{verdicts.count('within noise')} of {wording.plural(len(items), 'case')} within noise{size}"
    others = (
        ("worse", "confirmed worse"),
        ("better", "confirmed better"),
        ("less last night", "confirmed, but less than half of it remained last night"),
        ("outside noise", "outside noise and not confirmed"),
        ("too few nights", "with too few nights"),
    )
    count_text = [f"{verdicts.count(word)} {words}" for word, words in others if word in verdicts]
    return ", ".join([inside, *count_text])


def history(items: Sequence[CaseNight]) -> str:
    """The address of the history of cases on one hardware under one preset; of any cases if none is given."""
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


def pictures(nights: Collection[CaseNight], series_points: Lines) -> dict[SeriesKey, str]:
    """The sparklines of the displayed headlines, over the nights of their track."""
    sparklines: dict[SeriesKey, str] = {}
    for one in nights:
        values = [point.point for point in series_points.get(one.key, ())]
        sparklines[one.key] = markup.sparkline(
            values[-COURSE:], wording.metric(one.key.metric).unit, "nights", one.tone
        )
    return sparklines


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
    task, level, finding = part.newest, one.against, one.finding
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
        "level": level.level if level else None,
        "level_nights": level.nights if level else 0,
        "ratio": ratio(level.change) if level else None,
        "noise_ratio": ratio(level.band) if level and level.band is not None else None,
        "finding": finding.id if finding else None,
        "finding_ratio": ratio(finding.change) if finding else None,
    }


def _point_of(points: Iterable[SeriesPoint], run: str) -> SeriesPoint | None:
    """The point in a run; of several environments the last one counts."""
    return next((point for point in reversed(tuple(points)) if point.run == run), None)


def _order(one: CaseNight) -> tuple[object, ...]:
    """The sort key: confirmed first, worse before better, then outside noise; largest first."""
    places = ("worse", "less last night", "better", "outside noise")
    place = places.index(one.verdict) if one.verdict in places else len(places)
    size = one.finding.change if one.finding else one.against.change if one.against else 0.0
    return place, -abs(size), one.key.case, one.key.hardware


#: The most workloads of the matrix; further ones are in the CSV file of the changes.
MOST_WORKLOADS = 12


def matrix(
    label: str, nights: Sequence[CaseNight], lost_cases: Sequence[LostCase] = ()
) -> tuple[HeatMap, int]:
    """The newest night of each case of a track, coloured ones first, and the number of workloads left out.

    `lost_cases` are cases that are no longer measured. Only confirmed changes are good or bad.
    """
    cells: dict[tuple[str, tuple[str, str]], HeatCell] = {}
    night_cells = ((each.key.case, _night_cell(each)) for each in nights)
    for key, cell in (*night_cells, *((each.case, _lost_cell(each)) for each in lost_cases)):
        words = wording.case(key)
        cells[words.technique or "eager", (words.workload, words.parameters)] = cell
    coloured_workloads = {workload for (_, workload), cell in cells.items() if cell.tone != "quiet"}
    workloads = sorted(
        {workload for _, workload in cells}, key=lambda each: (each not in coloured_workloads, each)
    )
    techniques = sorted({technique for technique, _ in cells}, key=lambda name: (name != "eager", name))
    columns = workloads[:MOST_WORKLOADS]
    lines = [
        (HeatHead(name, chip=True), [cells.get((name, each)) for each in columns]) for name in techniques
    ]
    return HeatMap(label, [HeatHead(*each) for each in columns], lines), len(workloads) - len(columns)


def _lost_cell(one: LostCase) -> HeatCell:
    """A crashed case is broken; one that was disturbed, lost or not reached is not."""
    if one.status in FAILED:
        return HeatCell("×", "", "broke", "bad")
    status = wording.status(one.status)
    if status.tone == "bad":
        return HeatCell(wording.SIGNS["odd"], "", status.word, "odd")
    return HeatCell(status.sign, "", status.word, status.tone)


def _night_cell(one: CaseNight) -> HeatCell:
    # Also for a confirmed change of which less than half remained.
    change = one.finding or one.candidate
    link = links.finding(change.id) if change else ""
    if one.finding is not None and one.left:
        sign = "▲" if one.finding.change > 0 else "▼"
        return HeatCell(sign, one.finding.direction, percent(one.finding.change), one.tone, link=link)
    if one.against is not None and one.against.outside:
        return HeatCell("?", "not confirmed", percent(one.against.change), link=link)
    if one.verdict == "too few nights":
        return HeatCell("new", "")
    return HeatCell("·", one.verdict)
