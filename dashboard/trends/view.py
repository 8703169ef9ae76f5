"""The view of the Trends page: read from its address, written back to it."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, get_args

from analysis.detection.default_watched_metrics import HEADLINE
from dashboard.components import charts, links, wording
from dashboard.components.query_params import (
    Query,
    View,
    distinct,
    find_fingerprint,
    label_fingerprints,
    last,
    pick,
    pick_fingerprint,
    short_fingerprints,
    unknown_value,
)
from records.series import SeriesKey, SeriesPoint
from runner.execution.canary_runner import CASES, GPU_CASES

Axis = Literal["date", "version"]
Scale = Literal["absolute", "relative"]
#: The chosen cases as lines, or all cases of the metric as sparklines.
Shown = Literal["lines", "grid"]
Points = Literal["recent", "30d", "90d", "1y", "all"]

AXES: tuple[Axis, ...] = get_args(Axis)
SCALES: tuple[Scale, ...] = get_args(Scale)
POINTS: tuple[Points, ...] = get_args(Points)
SHOWN: tuple[Shown, ...] = get_args(Shown)
#: The options for the days before the newest point at which a line begins; without one all points are drawn.
DAYS: Mapping[Points, int] = {"30d": 30, "90d": 90, "1y": 365}
#: The options that need more than the newest points of a line.
_LONG: tuple[Points, ...] = ("1y", "all")

#: The most lines, by the number of distinguishable colours, and the most tracks, by the number of dashes.
MAX_LINES, MAX_TRACKS = charts.MAX_CASES, 6
#: The default number of cases of a view of all workloads.
_FIRST_CASES = 3


@dataclass(frozen=True, slots=True)
class Trends(View):
    """The trends page. `hardware` (each) and `preset` are whole fingerprints.

    Without `tracks` those of schedules are shown, or all if there are none. `baseline` is a PyTorch version,
    with or without its local part, or the id of a run; `at` is the id of the run whose points are opened.
    Both are empty without a selection. `points`: the newest nights, those of some `DAYS`, or as many as a
    chart can show. `workload` is a case key without its technique, to whose cases the options are limited.
    Empty for all workloads.
    """

    context: ClassVar = ("metric", "hardware", "workload", "points")
    home: ClassVar = links.HISTORY
    # Other lines may not have the opened point, and another machine has other tracks.
    resets: ClassVar = {
        **dict.fromkeys(("hardware", "preset"), ("tracks", "at")),
        **dict.fromkeys(("workload", "cases", "tracks"), ("at",)),
    }

    metric: str
    hardware: tuple[str, ...]
    preset: str
    axis: Axis
    cases: tuple[str, ...]
    tracks: tuple[str, ...] = ()
    scale: Scale = "absolute"
    baseline: str = ""
    at: str = ""
    points: Points = "recent"
    shown: Shown = "lines"
    workload: str = ""

    def has(self, case: str) -> bool:
        """Whether a case is of the workload."""
        return _all_of(self.workload, [case])

    @property
    def recent(self) -> bool:
        """Whether the last nights are enough; the median of a version and a baseline need all points."""
        return self.points not in _LONG and self.axis == "date" and self.scale == "absolute"

    @property
    def days(self) -> int | None:
        """The number of days that are drawn; None for no limit, also along versions."""
        return DAYS.get(self.points) if self.axis == "date" else None

    def query(self) -> dict[str, list[str]]:
        """The whole selection as a URL's query; empty fields are left out."""
        relative = self.scale == "relative"
        return {
            "metric": [self.metric],
            "hardware": [each[: links.FINGERPRINT] for each in self.hardware],
            "preset": [self.preset[: links.FINGERPRINT]],
            "workload": [self.workload] if self.workload else [],
            "axis": [self.axis],
            "scale": [self.scale],
            "baseline": [self.baseline] if relative and self.baseline else [],
            "case": list(self.cases),
            "track": list(self.tracks),
            "at": [self.at] if self.at else [],
            "points": [self.points] if self.points != POINTS[0] else [],
            "shown": [self.shown] if self.shown != SHOWN[0] else [],
        }

    def after(self, name: str, value: Any) -> "Trends":
        """The view without choices that do not exist for other lines."""
        new_view = super(Trends, self).after(name, value)
        if name == "workload" and value:
            return replace(new_view, cases=())
        return new_view if _all_of(new_view.workload, new_view.cases) else replace(new_view, workload="")

    def lines(self, keys: Sequence[SeriesKey]) -> tuple[SeriesKey, ...]:
        """The series that the view shows, a line each, in the order of the legend."""
        result = {
            (key.case, key.hardware): key
            for key in keys
            if key.metric == self.metric and key.preset == self.preset
        }
        pairs = [(case, hardware) for case in self.cases for hardware in self.hardware]
        return tuple(result[each] for each in pairs if each in result)[:MAX_LINES]

    def of_case(self, case: str, hardware: str) -> str:
        """The address of the view of one case on one hardware, as lines."""
        return replace(self, cases=(case,), hardware=(hardware,), at="", shown="lines").address

    def address_at(self, run: str) -> str:
        """The view's address with the points of a run opened."""
        return replace(self, at=run).address

    def address_of(self, point: SeriesPoint) -> str:
        """The same with the panel of the point's case."""
        return self.prefix + links.point(point.run, point.case, point.environment)

    @property
    def prefix(self) -> str:
        """The common beginning of the addresses of points, which end as in `links.point`."""
        return f"{replace(self, at='').address}&"


def label_series(keys: Sequence[SeriesKey]) -> tuple[SeriesKey, ...]:
    """Series that are shown together, with a unique label for each hardware."""
    labels = distinct({key.hardware: key.hardware_label for key in keys})
    return tuple(replace(key, hardware_label=labels[key.hardware]) for key in keys)


@dataclass(frozen=True, slots=True)
class TrendChoices:
    """The options of the trends page for the present selection; fingerprints map to labels."""

    metrics: tuple[str, ...]
    hardware: Mapping[str, str]
    presets: Mapping[str, str]
    cases: tuple[str, ...]
    workloads: tuple[str, ...]


#: The cases of a metric, some hardware and a preset, most important first.
Leading = Callable[[str, tuple[str, ...], str], Sequence[str]]


def trends(
    query: Query,
    keys: Sequence[SeriesKey],
    opening: Sequence[tuple[str, str]] = (),
    leading: Leading | None = None,
) -> tuple[Trends, TrendChoices, list[str]]:
    """The selection in `query`, what else is on offer, and complaints; `keys` must not be empty.

    What `query` leaves open is the first of `opening`, pairs of hardware and preset, that has such a series
    (of its cases or its workload, if it names any), and there the first `leading` cases, or without those
    the first by name. Tracks, baseline and the opened point stand as they were asked for: see
    `resolve_selection`. Raises SharedLabel for a preset named as several are.
    """
    complaints: list[str] = []
    metrics = sorted({k.metric for k in keys}, key=wording.metric_place)
    workload = last(query, "workload") or ""
    named = query.get("case", ())
    there = {k.metric for k in _first_place(_named_keys(keys, named, workload), opening)}
    default = HEADLINE if HEADLINE in there else min(there, key=wording.metric_place)
    metric = pick(query, "metric", metrics, default, complaints)

    keys = [k for k in keys if k.metric == metric]
    labels = {k.hardware: k.hardware_label for k in keys}
    default = _most_used(_first_place(_named_keys(keys, named, workload), opening), _hardware)
    hardware = _pick_hardware(query, labels, default, complaints)

    keys = [k for k in keys if k.hardware in hardware]
    presets = {k.preset: k.preset_name for k in keys}
    default = _most_used(_first_place(_named_keys(keys, named, workload), opening), _preset)
    preset = pick_fingerprint(query, "preset", presets, default, complaints)

    keys = [k for k in keys if k.preset == preset]
    every = sorted({k.case for k in keys})
    workloads = sorted({_workload(case) for case in every if not is_canary(case)} - {""})
    workload = _pick_workload(query, workloads, every, complaints)
    cases = [case for case in every if _all_of(workload, [case])]
    axis: Axis = "version" if pick(query, "axis", AXES, AXES[0], complaints) == "version" else "date"
    relative = pick(query, "scale", SCALES, SCALES[0], complaints) == "relative"
    period = pick(query, "points", POINTS, POINTS[0], complaints)
    points: Points = next(each for each in POINTS if each == period)
    label_maps = distinct(labels), distinct(presets)
    offer = TrendChoices(tuple(metrics), *label_maps, tuple(cases), tuple(workloads))
    many = max(1, MAX_LINES // len(hardware)) if workload else _FIRST_CASES
    first: Callable[[], Sequence[str]] = partial(leading, metric, hardware, preset) if leading else tuple
    selection = Trends(
        metric=metric,
        hardware=hardware,
        preset=preset,
        axis=axis,
        cases=_pick_cases(query, cases, first, many, complaints),
        tracks=tuple(dict.fromkeys(query.get("track", ()))),
        scale="relative" if relative else "absolute",
        baseline=last(query, "baseline") or "",
        at=last(query, "at") or "",
        points=points,
        shown="grid" if pick(query, "shown", SHOWN, SHOWN[0], complaints) == "grid" else "lines",
        workload=workload,
    )
    complaints += _not_there(selection, offer, keys)
    return selection, offer, complaints


def resolve_selection(
    selection: Trends,
    tracks: Sequence[str],
    baselines: Sequence[str],
    default_baseline: str,
    runs: Sequence[str],
) -> tuple[Trends, list[str]]:
    """The selection after its points are known, and complaints about values that none of them has.

    `baselines` are the possible baselines; `default_baseline` is the default (empty if there is none). `runs`
    are those with a point.
    """
    complaints = [unknown_value("track", each, tracks) for each in selection.tracks if each not in tracks]
    tracks_there = tuple(each for each in selection.tracks if each in tracks)[:MAX_TRACKS]
    baseline = selection.baseline or default_baseline
    if selection.scale == "relative" and baseline not in baselines and baseline not in runs:
        if selection.baseline:
            complaints.append(unknown_value("baseline", selection.baseline, [*baselines, *runs]))
        baseline = default_baseline
    at = selection.at
    if at and at not in runs:
        complaints.append(f"Run {at} has no point in this selection.")
        at = ""
    return replace(selection, tracks=tracks_there, baseline=baseline, at=at), complaints


def _pick_hardware(
    query: Query, labels: Mapping[str, str], default: str, complaints: list[str]
) -> tuple[str, ...]:
    """Each by fingerprint, by its beginning, or by label; the default if none is left."""
    result: dict[str, None] = {}
    for text in dict.fromkeys(query.get("hardware", ())):
        if len(several := label_fingerprints(text, labels)) > 1:
            names = short_fingerprints(several)
            complaints.append(
                f"{len(several)} kinds of hardware have the label {text} ({names}): each has its own lines."
            )
            result |= dict.fromkeys(several)
        elif (one := find_fingerprint(text, labels)) is None:
            complaints.append(unknown_value("hardware", text, labels.values()))
        else:
            result[one] = None
    return _first(tuple(result), "kinds of hardware", complaints) or (default,)


def _pick_workload(
    query: Query, workloads: Sequence[str], cases: Sequence[str], complaints: list[str]
) -> str:
    """The workload of the address; none if the address names cases of others."""
    workload = pick(query, "workload", ("", *workloads), "", complaints)
    if _all_of(workload, [case for case in query.get("case", ()) if case in cases]):
        return workload
    complaints.append(f"Some of these cases are not of workload {workload}: all workloads can be chosen.")
    return ""


def _pick_cases(
    query: Query,
    all_cases: Sequence[str],
    leading: Callable[[], Sequence[str]],
    many: int,
    complaints: list[str],
) -> tuple[str, ...]:
    """The cases of the address; without any the first `many`."""
    names = list(dict.fromkeys(query.get("case", ())))
    complaints += [unknown_value("case", case, all_cases) for case in names if case not in all_cases]
    cases = _first(tuple(case for case in names if case in all_cases), "cases", complaints)
    if cases:
        return cases
    options = list(dict.fromkeys([*(case for case in leading() if case in all_cases), *all_cases]))
    # Series of the canary are the default only if there are no others.
    models = [case for case in options if not is_canary(case)]
    return tuple((models or options)[:many])


def _first(values: tuple[str, ...], what: str, complaints: list[str]) -> tuple[str, ...]:
    """The first ones, up to the most lines."""
    if len(values) > MAX_LINES:
        complaints.append(
            f"A chart has at most {MAX_LINES} lines: it shows the first of {len(values)} {what}."
        )
    return values[:MAX_LINES]


def _workload(case: str) -> str:
    return case.rpartition("/")[0]


def _all_of(workload: str, cases: Sequence[str]) -> bool:
    """Whether cases are of a workload or of the machine itself; an empty workload is any."""
    return not workload or all(_workload(case) == workload or is_canary(case) for case in cases)


def _named_keys(keys: Sequence[SeriesKey], cases: Collection[str], workload: str) -> Sequence[SeriesKey]:
    """Those of some cases, else those of a workload; all where there are none of either."""
    named = set(cases)
    of_cases = [key for key in keys if key.case in named] if named else []
    return of_cases or [key for key in keys if workload and _workload(key.case) == workload] or keys


def is_canary(case: str) -> bool:
    """Whether a case is the canary."""
    return case in CASES or case in GPU_CASES


def _not_there(selection: Trends, offer: TrendChoices, keys: Sequence[SeriesKey]) -> list[str]:
    """Complaints about a selection whose parts all exist: too many lines, hardware without any."""
    result = {(key.case, key.hardware) for key in keys if key.case in selection.cases}
    complaints: list[str] = []
    if len(result) > MAX_LINES:
        complaints.append(
            f"A chart has at most {MAX_LINES} lines: only the first of {len(result)} are shown."
        )
    there = {hardware for _, hardware in result}
    preset = offer.presets[selection.preset]
    return complaints + [
        f"{offer.hardware[each]} has none of these cases under preset {preset}."
        for each in selection.hardware
        if each not in there
    ]


def _first_place(keys: Sequence[SeriesKey], opening: Sequence[tuple[str, str]]) -> Sequence[SeriesKey]:
    """The series of the first hardware and preset in `opening` that any of `keys` has; all if there is
    none.
    """
    there = {(key.hardware, key.preset) for key in keys}
    place = next((place for place in opening if place in there), None)
    return keys if place is None else [key for key in keys if (key.hardware, key.preset) == place]


def _hardware(key: SeriesKey) -> str:
    return key.hardware


def _preset(key: SeriesKey) -> str:
    return key.preset


def _most_used(keys: Sequence[SeriesKey], part: Callable[[SeriesKey], str]) -> str:
    # Ties go to the first in order, so that the default view of a database is always the same.
    counts = Counter(part(key) for key in keys)
    return min(counts, key=lambda value: (-counts[value], value))
