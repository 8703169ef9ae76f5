"""Records made into the DataFrames that charts draw and CSV files hold."""

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from packaging.version import InvalidVersion, Version

from analysis.operators import KERNEL, OPERATOR, Operator, OperatorChange, total_us
from dashboard.components import wording
from records.outcomes import Measurement, Outcome
from records.runs import Run, RunSummary
from records.series import Headline

#: A histogram whose slowest hundredth takes more than this many times the room of the others is cut.
_STRETCH = 2
#: Samples drawn at most; beyond, each bucket keeps its smallest and its largest.
MAX_SAMPLES = 2000

Milliseconds = npt.NDArray[np.float64]
_Row = dict[str, Any]


@lru_cache(maxsize=4096)
def version_order(text: str) -> tuple[int, Version, str]:
    """A key that sorts versions as versions: dev builds by date before their release, oddities last."""
    try:
        return 0, Version(text), text
    except InvalidVersion:
        return 1, Version("0"), text


def headlines(items: Sequence[Headline]) -> pd.DataFrame:
    """The newest point of every series and the one before it, for CSV."""
    rows = [
        {
            "case": h.key.case,
            "metric": h.key.metric,
            "unit": wording.metric(h.key.metric).unit,
            "hardware": h.key.hardware_label,
            "preset": h.key.preset_name,
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
            "preset": r.preset,
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
    """Outcomes of one run, for CSV: one column per metric that occurs.

    A metric from outside may be called as a column is: such a one is `metric_` and its name.
    """
    rows = [_outcome_row(outcome) for outcome in items]
    metrics = {name for outcome in items for name in outcome.metrics}
    named = {name: _column(name, metrics, rows[0]) for name in metrics}
    return pd.DataFrame(
        [
            {**row, **{named[name]: value for name, value in outcome.metrics.items()}}
            for row, outcome in zip(rows, items, strict=True)
        ]
    )


def _column(metric: str, metrics: Collection[str], row: Collection[str]) -> str:
    """What the column of a metric is called: no other metric has that name, and no column of a row."""
    found = metric
    while found in row or (found != metric and found in metrics):
        found = f"metric_{found}"
    return found


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


def operator_changes(changes: Sequence[OperatorChange], *, device: bool = True) -> pd.DataFrame:
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


def environment_names(run: Run) -> dict[str, str]:
    """What each environment of a run is called, by fingerprint."""
    return {environment.fingerprint: environment.name for environment in run.environments}


def measurements(
    run: Run, items: Sequence[Measurement], defined: wording.Definitions | None = None
) -> pd.DataFrame:
    """Measurements of one run, for CSV; `defined` are the metrics that came from outside.

    Two environments may have one PyTorch: `environment` is the fingerprint.
    """
    versions, names = torch_versions(run), environment_names(run)
    rows = [
        {
            "run": run.id,
            "case": m.case,
            "torch": versions.get(m.environment, m.environment),
            "environment": m.environment,
            "environment_name": names.get(m.environment, ""),
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
