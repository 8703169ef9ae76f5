"""Records made into the DataFrames that charts draw and CSV files hold."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from packaging.version import InvalidVersion, Version

from analysis.operators import KERNEL, OPERATOR, Change, Operator, total_us
from dashboard import charts, links, wording
from db.records import Headline, Measurement, Outcome, Run, RunSummary, SeriesPoint

#: Release labels on a date axis beyond which only changes of the release are marked, not every nightly.
_MAX_VERSION_RULES = 10
#: Names along a version axis, which must not touch on a phone either.
_MAX_VERSION_NAMES = 18
#: The share of the axis that one character of a label takes.
_LABEL_ROOM = 0.007
#: Cases that differ by more than this factor get scales of their own.
_ONE_SCALE = 3
#: Between the first and the last version at one moment.
_SPAN = " … "
#: Within less than this, dates alone do not tell points apart.
_DATES_SUFFICE = timedelta(days=3)
#: Above this many points a bar at every point is noise, and the band alone says the range.
_MAX_BARS = 120
#: A histogram whose slowest hundredth takes more than this many times the room of the others is cut.
_STRETCH = 2
#: Samples drawn at most; beyond, each bucket keeps its smallest and its largest.
MAX_SAMPLES = 2000

Milliseconds = npt.NDArray[np.float64]
_Row = dict[str, Any]


def version_order(text: str) -> tuple[int, Version, str]:
    """A key that sorts versions as versions: dev builds by date before their release, oddities last."""
    try:
        return 0, Version(text), text
    except InvalidVersion:
        return 1, Version("0"), text


def trend_points(points: Sequence[SeriesPoint], cases: Sequence[str], axis: charts.Axis) -> pd.DataFrame:
    """One row per point for `charts.trend`, in the order of the line.

    On the version axis x is the version's place among all, and the runs of one version are put together:
    the median of their points, the range of all their replicates, n summed.
    """
    letters = {case: charts.letter(place) for place, case in enumerate(cases)}
    rows = [_point_row(p, letters[p.case]) for p in sorted(points, key=lambda p: p.started_at)]
    rows = _by_version(rows) if axis == "version" else sorted(rows, key=lambda row: row["letter"])
    ends = {row["letter"]: place for place, row in enumerate(rows)}
    shown = [{**row, "torch": row["torch"] or wording.NONE} for row in rows]
    return pd.DataFrame([{**row, "last": ends[row["letter"]] == place} for place, row in enumerate(shown)])


def trend_look(points: Sequence[SeriesPoint]) -> charts.TrendLook:
    """How a trend chart of these points is best drawn; there must be at least one."""
    sizes: dict[str, list[float]] = defaultdict(list)
    for point in points:
        sizes[point.case].append(abs(point.point))
    medians = [median(values) for values in sizes.values()]
    moments = [point.started_at for point in points]
    return charts.TrendLook(
        stacked=max(medians) > _ONE_SCALE * min(medians),
        bars=len(points) <= _MAX_BARS,
        clock=max(moments) - min(moments) < _DATES_SUFFICE,
        rules=len({point.torch_version for point in points if point.torch_version}) > 1,
    )


def version_changes(points: Iterable[SeriesPoint]) -> pd.DataFrame:
    """Where the PyTorch version differs from the point before it: columns x, version, label.

    The label is empty where it would lie over the one before. Points without a PyTorch (the canary's) are no
    change of it. Several PyTorches at one moment, as of files written at once, share a rule.
    """
    columns = ["x", "version", "label"]
    ordered = sorted((p for p in points if p.torch_version), key=lambda p: p.started_at)
    if not ordered:
        return pd.DataFrame(columns=columns)
    changes = _changes(ordered, str)
    if len(changes) > _MAX_VERSION_RULES:
        changes = _changes(ordered, _release)
    length = ordered[-1].started_at - ordered[0].started_at
    rows: list[_Row] = []
    free_from = ordered[0].started_at - length
    for moment, version in changes:
        label = _SPAN.join(each.partition("+")[0] for each in version.split(_SPAN))
        half = length * (len(label) * _LABEL_ROOM / 2)
        fits = moment - half >= free_from
        if fits:
            free_from = moment + half
        rows.append({"x": moment, "version": version, "label": label if fits else ""})
    return pd.DataFrame(rows, columns=columns)


def at_one_moment(changes: pd.DataFrame) -> bool:
    """Whether any of `version_changes` stands for several versions."""
    return any(_SPAN in version for version in changes["version"])


def version_names(points: Iterable[SeriesPoint]) -> pd.DataFrame:
    """The versions along their axis: columns x (the place), version, label (empty where crowded)."""
    places = _places(point.torch_version for point in points)
    every = -(-len(places) // _MAX_VERSION_NAMES)
    named = ((place, name or "no PyTorch") for name, place in places.items())
    rows = [(place, name, name if place % every == 0 else "") for place, name in named]
    return pd.DataFrame(rows, columns=["x", "version", "label"])


def trend_table(points: Sequence[SeriesPoint], unit: str) -> pd.DataFrame:
    """Every point of a view, newest first; the columns of the table and of its CSV."""
    ordered = sorted(points, key=lambda p: (p.started_at, p.case), reverse=True)
    rows = [
        {
            "case": p.case,
            "measured (UTC)": p.started_at,
            "torch": p.torch_version,
            "run": p.run,
            "point": p.point,
            "unit": unit,
            "n": p.n,
            "smallest": p.smallest,
            "largest": p.largest,
            "95 % low": p.low,
            "95 % high": p.high,
            "spread": p.spread,
            "machine": p.machine,
            "harness": p.harness,
            "environment": p.environment,
        }
        for p in ordered
    ]
    return pd.DataFrame(rows)


def headlines(items: Sequence[Headline]) -> pd.DataFrame:
    """The newest point of every series and the one before it, for CSV."""
    rows = [
        {
            "case": h.key.case,
            "metric": h.key.metric,
            "unit": wording.metric(h.key.metric).unit,
            "hardware": h.key.hardware_label,
            "profile": h.key.profile_name,
            "point": h.latest.point,
            "smallest": h.latest.smallest,
            "largest": h.latest.largest,
            "n": h.latest.n,
            "torch": h.latest.torch_version,
            "run": h.latest.run,
            "previous_point": h.previous.point if h.previous else None,
            "previous_run": h.previous.run if h.previous else None,
            "previous_torch": h.previous.torch_version if h.previous else None,
        }
        for h in items
    ]
    return pd.DataFrame(rows)


def runs(items: Sequence[RunSummary]) -> pd.DataFrame:
    """Runs, for CSV: one column per status that occurs."""
    rows = [
        {
            "run": r.id,
            "suite": r.suite,
            "state": r.state,
            "started_at": r.started_at,
            "ended_at": r.ended_at,
            "machine": r.machine,
            "hardware": r.hardware,
            "torch": " ".join(r.torch_versions),
            "profile": r.profile,
            "planned": r.planned,
            **r.counts,
        }
        for r in items
    ]
    return pd.DataFrame(rows)


def failures(items: Sequence[tuple[RunSummary, Outcome]]) -> pd.DataFrame:
    """What did not end ok, for CSV."""
    rows = [{"run": run.id, **_outcome_row(outcome)} for run, outcome in items]
    return pd.DataFrame(rows)


def outcomes(items: Sequence[Outcome]) -> pd.DataFrame:
    """Outcomes of one run, for CSV: one column per metric that occurs."""
    return pd.DataFrame([{**_outcome_row(outcome), **outcome.metrics} for outcome in items])


def operators(table: Sequence[Operator], *, device: bool = True) -> pd.DataFrame:
    """An operator table, per step; `share` is a row's part of the own time where it ran."""
    whole = {kind: total_us(table, kind) or 1.0 for kind in (OPERATOR, KERNEL)}
    rows = [
        {
            "name": row.name,
            "runs on": "CPU" if row.kind == OPERATOR else "device",
            "calls": row.calls,
            "self µs": row.own_us,
            "share": row.own_us / whole.get(row.kind, 1.0),
            "CPU self µs": row.self_cpu_us,
            "CPU total µs": row.total_cpu_us,
            "device self µs": row.self_device_us,
            "device total µs": row.total_device_us,
            "net KiB": row.self_memory_bytes / 1024,
        }
        for row in table
    ]
    only_with_device = ["runs on", "CPU self µs", "device self µs", "device total µs"]
    return pd.DataFrame(rows).drop(columns=[] if device else only_with_device)


def operator_changes(changes: Sequence[Change], *, device: bool = True) -> pd.DataFrame:
    """What table B differs from table A by, per step; empty where one side lacks the name."""
    rows = [
        {
            "name": change.name,
            "runs on": "CPU" if change.kind == OPERATOR else "device",
            "B - A µs": change.delta_us,
            "A µs": change.self_us_a,
            "B µs": change.self_us_b,
            "calls A": change.calls_a,
            "calls B": change.calls_b,
        }
        for change in changes
    ]
    return pd.DataFrame(rows).drop(columns=[] if device else ["runs on"])


def torch_versions(run: Run) -> dict[str, str]:
    """The PyTorch of each environment of a run, by fingerprint; empty for the canary's."""
    return {environment.fingerprint: environment.torch_version for environment in run.environments}


def measurements(
    run: Run, items: Sequence[Measurement], defined: wording.Definitions | None = None
) -> pd.DataFrame:
    """Measurements of one run, for CSV; `defined` are the metrics that came from outside."""
    versions = torch_versions(run)
    rows = [
        {
            "run": run.id,
            "case": m.case,
            "torch": versions.get(m.environment, m.environment),
            "metric": m.metric,
            "unit": wording.metric(m.metric, defined).unit,
            "point": m.point,
            "low": m.low,
            "high": m.high,
            "smallest": m.smallest,
            "largest": m.largest,
            "spread": m.spread,
            "n": m.n,
        }
        for m in items
    ]
    return pd.DataFrame(rows)


def milliseconds(blocks: Sequence[Sequence[int]]) -> Milliseconds:
    """The samples of all blocks (given in nanoseconds) in the order they were taken."""
    return np.concatenate([np.empty(0), *(np.asarray(block, dtype=np.float64) for block in blocks)]) / 1e6


def samples(blocks: Sequence[Sequence[int]], left_out: frozenset[int] = frozenset()) -> pd.DataFrame:
    """Samples in the order they were taken: iteration and block (from 1), milliseconds, whether they count.

    `left_out` are the blocks, by their number from 0, that do not.
    """
    values = milliseconds(blocks)
    lengths = [len(block) for block in blocks]
    numbers = np.repeat(np.arange(1, len(blocks) + 1), lengths)
    counts = np.repeat([place not in left_out for place in range(len(blocks))], lengths)
    iterations = np.arange(1, len(values) + 1)
    return pd.DataFrame({"iteration": iterations, "block": numbers, "milliseconds": values, "counts": counts})


def thinned(blocks: Sequence[Sequence[int]], left_out: frozenset[int] = frozenset()) -> pd.DataFrame:
    """At most `MAX_SAMPLES` rows of `samples`; every bucket keeps its extremes, so that no spike is lost."""
    frame, values = samples(blocks, left_out), milliseconds(blocks)
    if len(values) <= MAX_SAMPLES:
        return frame
    kept: list[int] = []
    start = 0
    for bucket in np.array_split(values, MAX_SAMPLES // 2):
        kept += sorted({start + int(bucket.argmin()), start + int(bucket.argmax())})
        start += len(bucket)
    return frame.iloc[kept]


def block_starts(blocks: Sequence[Sequence[int]]) -> pd.DataFrame:
    """Where each block but the first begins, half an iteration early, for the dashed rules."""
    lengths = [len(block) for block in blocks[:-1]]
    return pd.DataFrame({"iteration": np.cumsum(lengths, dtype=np.float64) + 0.5})


def bulk(values: Milliseconds) -> Milliseconds:
    """The samples that a histogram can show: without the slowest hundredth where it would fill the axis."""
    if not len(values):
        return values
    limit = float(np.percentile(values, 99))
    if values.max() - values.min() <= _STRETCH * (limit - values.min()):
        return values
    return values[values <= limit]


def histogram(values: Milliseconds) -> pd.DataFrame:
    """Bins of the samples: low, high (ms), count; width by Freedman and Diaconis (1981), 5 to 60 bins."""
    lower, upper = np.percentile(values, [25, 75])
    width = 2 * float(upper - lower) / len(values) ** (1 / 3)
    reach = float(values.max() - values.min())
    bins = min(60, max(5, round(reach / width))) if width > 0 else 5
    counts, edges = np.histogram(values, bins=bins)
    return pd.DataFrame({"low": edges[:-1], "high": edges[1:], "count": counts})


def _point_row(point: SeriesPoint, letter: str) -> _Row:
    return {
        "x": point.started_at,
        "letter": letter,
        "case": wording.case(point.case).text,
        "measured": wording.utc(point.started_at),
        "torch": point.torch_version,
        "point": point.point,
        "smallest": point.smallest,
        "largest": point.largest,
        "n": point.n,
        "run": point.run,
        "link": links.run(point.run),
    }


def _by_version(rows: Sequence[_Row]) -> list[_Row]:
    order = _places(row["torch"] for row in rows)
    groups: dict[tuple[str, str], list[_Row]] = defaultdict(list)
    for row in rows:
        groups[row["letter"], row["torch"]].append(row)
    return [
        {
            **group[-1],
            "x": order[torch],
            "point": median(row["point"] for row in group),
            "smallest": min(row["smallest"] for row in group),
            "largest": max(row["largest"] for row in group),
            "n": sum(row["n"] for row in group),
            "run": group[0]["run"] if len(group) == 1 else f"{len(group)} runs, newest {group[-1]['run']}",
        }
        for (_, torch), group in sorted(groups.items(), key=lambda g: (g[0][0], order[g[0][1]]))
    ]


def _places(versions: Iterable[str]) -> dict[str, int]:
    return {version: place for place, version in enumerate(sorted(set(versions), key=version_order))}


def _changes(ordered: Sequence[SeriesPoint], spelled: Callable[[str], str]) -> list[tuple[datetime, str]]:
    """The moments at which the versions, as they are `spelled`, are not those of the moment before."""
    moments = groupby(ordered, key=lambda p: p.started_at)
    found = [(moment, _span({spelled(p.torch_version) for p in own})) for moment, own in moments]
    begins = found[:1] if _SPAN in found[0][1] else []
    return begins + [after for before, after in pairwise(found) if before[1] != after[1]]


def _span(versions: Collection[str]) -> str:
    first, *rest = sorted(versions, key=version_order)
    return _SPAN.join([first, *rest[-1:]])


def _release(version: str) -> str:
    rank, parsed, text = version_order(version)
    return text if rank else parsed.base_version


def _outcome_row(outcome: Outcome) -> dict[str, object]:
    return {
        "case": outcome.case,
        "environment": outcome.environment,
        "replicate": outcome.replicate,
        "status": outcome.status,
        "phase": outcome.phase,
        "reason": outcome.reason,
        "started_at": outcome.started_at,
        "wall_seconds": outcome.wall_seconds,
    }
