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
#: The chosen cases as lines, or all cases of the metric as small pictures.
Shown = Literal["lines", "grid"]
Points = Literal["recent", "30d", "90d", "1y", "all"]

AXES: tuple[Axis, ...] = get_args(Axis)
SCALES: tuple[Scale, ...] = get_args(Scale)
POINTS: tuple[Points, ...] = get_args(Points)
SHOWN: tuple[Shown, ...] = get_args(Shown)
#: How many days before the newest point a line begins; without one it has as many points as there are.
DAYS: Mapping[Points, int] = {"30d": 30, "90d": 90, "1y": 365}
#: What reaches further back than the newest points of a line.
_LONG: tuple[Points, ...] = ("1y", "all")

#: As many lines as there are colours that can be distinguished, and as many tracks as there are dashes.
MAX_LINES, MAX_TRACKS = charts.MAX_CASES, 6
#: How many cases a view of all workloads starts with when the URL names none.
_FIRST_CASES = 3


@dataclass(frozen=True, slots=True)
class Trends(View):
    """The trends page. `hardware` (each) and `preset` are whole fingerprints.

    Without `tracks` those of schedules are shown, or all where there is none. `baseline` is a PyTorch
    version, with or without its local part, or a run's id; `at` is the id of the run whose points are opened.
    Both are empty where nothing was chosen.
    `points`: the newest nights, those of some `DAYS`, or all that a chart has room for.
    `workload` is a case key without its technique; only its cases are on offer. Empty for all workloads.
    """

    context: ClassVar = ("metric", "hardware", "workload", "points")
    home: ClassVar = links.HISTORY
    # Of other lines the point that is opened may show nothing, and another machine has other tracks.
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
        """Whether the last nights will do: a version's median, and what lines are set against, want all."""
        return self.points not in _LONG and self.axis == "date" and self.scale == "absolute"

    @property
    def days(self) -> int | None:
        """How many days are drawn; None for no limit, as along versions, which are not dates."""
        return DAYS.get(self.points) if self.axis == "date" else None

    def query(self) -> dict[str, list[str]]:
        """The whole selection as a URL's query; what is empty is left out."""
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
        """What was chosen of one selection of lines and is not there in another is given up."""
        changed = super(Trends, self).after(name, value)
        if name == "workload" and value:
            return replace(changed, cases=())
        return changed if _all_of(changed.workload, changed.cases) else replace(changed, workload="")

    def lines(self, keys: Sequence[SeriesKey]) -> tuple[SeriesKey, ...]:
        """The series that the view shows, a line each, in the order of the legend."""
        found = {
            (key.case, key.hardware): key
            for key in keys
            if key.metric == self.metric and key.preset == self.preset
        }
        wanted = [(case, hardware) for case in self.cases for hardware in self.hardware]
        return tuple(found[each] for each in wanted if each in found)[:MAX_LINES]

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
        """What the addresses of its points begin with; a chart has thousands, which end as `links.point`."""
        return f"{replace(self, at='').address}&"


def label_series(keys: Sequence[SeriesKey]) -> tuple[SeriesKey, ...]:
    """Series that are shown together, in which each hardware has a label of its own."""
    labels = distinct({key.hardware: key.hardware_label for key in keys})
    return tuple(replace(key, hardware_label=labels[key.hardware]) for key in keys)


@dataclass(frozen=True, slots=True)
class TrendChoices:
    """What the trends page can choose from, given what is chosen; fingerprints map to labels."""

    metrics: tuple[str, ...]
    hardware: Mapping[str, str]
    presets: Mapping[str, str]
    cases: tuple[str, ...]
    workloads: tuple[str, ...]


#: The cases of a metric, some hardware and a preset, what matters most first.
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
    used = _most_used(_first_place(_named_keys(keys, named, workload), opening), _hardware)
    hardware = _pick_hardware(query, labels, used, complaints)

    keys = [k for k in keys if k.hardware in hardware]
    presets = {k.preset: k.preset_name for k in keys}
    used = _most_used(_first_place(_named_keys(keys, named, workload), opening), _preset)
    preset = pick_fingerprint(query, "preset", presets, used, complaints)

    keys = [k for k in keys if k.preset == preset]
    every = sorted({k.case for k in keys})
    workloads = sorted({_workload(case) for case in every if not is_canary(case)} - {""})
    workload = _pick_workload(query, workloads, every, complaints)
    known = [case for case in every if _all_of(workload, [case])]
    axis: Axis = "version" if pick(query, "axis", AXES, AXES[0], complaints) == "version" else "date"
    relative = pick(query, "scale", SCALES, SCALES[0], complaints) == "relative"
    reach = pick(query, "points", POINTS, POINTS[0], complaints)
    points: Points = next(each for each in POINTS if each == reach)
    unlike = distinct(labels), distinct(presets)
    offer = TrendChoices(tuple(metrics), *unlike, tuple(known), tuple(workloads))
    many = max(1, MAX_LINES // len(hardware)) if workload else _FIRST_CASES
    ordered: Callable[[], Sequence[str]] = partial(leading, metric, hardware, preset) if leading else tuple
    chosen = Trends(
        metric=metric,
        hardware=hardware,
        preset=preset,
        axis=axis,
        cases=_pick_cases(query, known, ordered, many, complaints),
        tracks=tuple(dict.fromkeys(query.get("track", ()))),
        scale="relative" if relative else "absolute",
        baseline=last(query, "baseline") or "",
        at=last(query, "at") or "",
        points=points,
        shown="grid" if pick(query, "shown", SHOWN, SHOWN[0], complaints) == "grid" else "lines",
        workload=workload,
    )
    complaints += _not_there(chosen, offer, keys)
    return chosen, offer, complaints


def resolve_selection(
    chosen: Trends, tracks: Sequence[str], baselines: Sequence[str], pinned: str, runs: Sequence[str]
) -> tuple[Trends, list[str]]:
    """The selection once its points are known, and complaints about what none of them has.

    `baselines` are the versions that a line may be set against; `pinned` is the one taken where the address
    names none (empty for nothing that could be). `runs` are those that have a point.
    """
    complaints = [unknown_value("track", each, tracks) for each in chosen.tracks if each not in tracks]
    tracks_there = tuple(each for each in chosen.tracks if each in tracks)[:MAX_TRACKS]
    baseline = chosen.baseline or pinned
    if chosen.scale == "relative" and baseline not in baselines and baseline not in runs:
        if chosen.baseline:
            complaints.append(unknown_value("baseline", chosen.baseline, [*baselines, *runs]))
        baseline = pinned
    at = chosen.at
    if at and at not in runs:
        complaints.append(f"Run {at} has no point in what is shown.")
        at = ""
    return replace(chosen, tracks=tracks_there, baseline=baseline, at=at), complaints


def _pick_hardware(
    query: Query, labels: Mapping[str, str], default: str, complaints: list[str]
) -> tuple[str, ...]:
    """Each by fingerprint, by its beginning, or by label; the default where none is left."""
    found: dict[str, None] = {}
    for wanted in dict.fromkeys(query.get("hardware", ())):
        if len(several := label_fingerprints(wanted, labels)) > 1:
            names = short_fingerprints(several)
            complaints.append(
                f"{len(several)} kinds of hardware are called {wanted} ({names}): each has its own lines."
            )
            found |= dict.fromkeys(several)
        elif (one := find_fingerprint(wanted, labels)) is None:
            complaints.append(unknown_value("hardware", wanted, labels.values()))
        else:
            found[one] = None
    return _first(tuple(found), "kinds of hardware", complaints) or (default,)


def _pick_workload(
    query: Query, workloads: Sequence[str], known: Sequence[str], complaints: list[str]
) -> str:
    """The workload of the address; none where the address names cases of others."""
    workload = pick(query, "workload", ("", *workloads), "", complaints)
    if _all_of(workload, [case for case in query.get("case", ()) if case in known]):
        return workload
    complaints.append(f"Not all of these cases are of workload {workload}: all workloads are on offer.")
    return ""


def _pick_cases(
    query: Query,
    known: Sequence[str],
    leading: Callable[[], Sequence[str]],
    many: int,
    complaints: list[str],
) -> tuple[str, ...]:
    """The cases of the address; without any the first so `many`."""
    wanted = list(dict.fromkeys(query.get("case", ())))
    complaints += [unknown_value("case", case, known) for case in wanted if case not in known]
    cases = _first(tuple(case for case in wanted if case in known), "cases", complaints)
    if cases:
        return cases
    ordered = list(dict.fromkeys([*(case for case in leading() if case in known), *known]))
    # The machine's own series open a view only where nothing else is there.
    models = [case for case in ordered if not is_canary(case)]
    return tuple((models or ordered)[:many])


def _first(wanted: tuple[str, ...], what: str, complaints: list[str]) -> tuple[str, ...]:
    """As many as there may be lines."""
    if len(wanted) > MAX_LINES:
        complaints.append(f"A chart holds {MAX_LINES} lines; of {len(wanted)} {what} the first are shown.")
    return wanted[:MAX_LINES]


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
    """Whether a case is the machine's own."""
    return case in CASES or case in GPU_CASES


def _not_there(chosen: Trends, offer: TrendChoices, keys: Sequence[SeriesKey]) -> list[str]:
    """Complaints about a selection whose parts all exist: too many lines, hardware without any."""
    found = {(key.case, key.hardware) for key in keys if key.case in chosen.cases}
    complaints: list[str] = []
    if len(found) > MAX_LINES:
        complaints.append(f"A chart holds {MAX_LINES} lines; of {len(found)} the first are shown.")
    there = {hardware for _, hardware in found}
    preset = offer.presets[chosen.preset]
    return complaints + [
        f"{offer.hardware[each]} has none of these cases under preset {preset}."
        for each in chosen.hardware
        if each not in there
    ]


def _first_place(keys: Sequence[SeriesKey], opening: Sequence[tuple[str, str]]) -> Sequence[SeriesKey]:
    """Those of the first hardware and preset in `opening` that any of `keys` has; all if there is none."""
    there = {(key.hardware, key.preset) for key in keys}
    place = next((place for place in opening if place in there), None)
    return keys if place is None else [key for key in keys if (key.hardware, key.preset) == place]


def _hardware(key: SeriesKey) -> str:
    return key.hardware


def _preset(key: SeriesKey) -> str:
    return key.preset


def _most_used(keys: Sequence[SeriesKey], part: Callable[[SeriesKey], str]) -> str:
    # Ties go to the first in order, so that the same database always opens on the same view.
    counted = Counter(part(key) for key in keys)
    return min(counted, key=lambda value: (-counted[value], value))
