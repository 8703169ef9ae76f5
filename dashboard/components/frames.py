"""Converts records to the DataFrames of charts and CSV files."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from packaging.version import InvalidVersion, Version

from analysis.operators import KERNEL, OPERATOR, Operator, OperatorChange, total_us
from dashboard.components import wording
from records.outcomes import Outcome
from records.runs import Run, RunSummary

#: A histogram is cut if its slowest hundredth takes more than this multiple of the width of the others.
_STRETCH = 2
#: The most samples in a chart; of more, each bucket keeps its smallest and its largest.
MAX_SAMPLES = 2000
#: The number of nightlies listed with the releases; older ones are listed separately.
NEWEST_NIGHTLIES = 3

Milliseconds = npt.NDArray[np.float64]
_Row = dict[str, Any]


@lru_cache(maxsize=4096)
def version_order(text: str) -> tuple[int, Version, str]:
    """A sort key of versions: dev builds by date before their release, invalid versions last."""
    try:
        return 0, Version(text), text
    except InvalidVersion:
        return 1, Version("0"), text


def version_choices(versions: Iterable[str]) -> dict[str, str]:
    """PyTorch versions to choose from, with their labels, in groups that begin with the newest.

    The last nightlies come first, then the releases, then all older nightlies.
    """
    every = sorted(versions, key=version_order, reverse=True)
    nightlies = [each for each in every if wording.is_nightly(each)]
    releases = [each for each in every if not wording.is_nightly(each)]
    names = {each: f"{wording.version(each)} · {each}" for each in nightlies}
    in_order = [*nightlies[:NEWEST_NIGHTLIES], *releases, *nightlies[NEWEST_NIGHTLIES:]]
    return {each: names.get(each, each) for each in in_order}


def failures(items: Sequence[tuple[RunSummary, Outcome]]) -> pd.DataFrame:
    """Outcomes that are not ok, for CSV."""
    names = ("case", "environment", "replicate", "status", "phase", "reason", "started_at", "wall_seconds")
    rows = [{"run": run.id, **{name: getattr(one, name) for name in names}} for run, one in items]
    return pd.DataFrame(rows)


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
    """The differences of table B from table A, per step; a cell is empty if one side lacks the name."""
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
    """The name of each environment of a run, by fingerprint."""
    return {environment.fingerprint: environment.name for environment in run.environments}


def milliseconds(blocks: Sequence[Sequence[int]]) -> Milliseconds:
    """The samples of all blocks (given in nanoseconds) in the order they were taken."""
    return np.concatenate([np.empty(0), *(np.asarray(block, dtype=np.float64) for block in blocks)]) / 1e6


def samples(blocks: Sequence[Sequence[int]], left_out: frozenset[int] = frozenset()) -> pd.DataFrame:
    """Samples in the order they were taken: iteration and block (from 1), milliseconds, whether they count.

    `left_out` are the numbers, from 0, of the blocks that do not count.
    """
    values = milliseconds(blocks)
    lengths = [len(block) for block in blocks]
    numbers = np.repeat(np.arange(1, len(blocks) + 1), lengths)
    counts = np.repeat([place not in left_out for place in range(len(blocks))], lengths)
    iterations = np.arange(1, len(values) + 1)
    return pd.DataFrame({"iteration": iterations, "block": numbers, "milliseconds": values, "counts": counts})


def thin_samples(blocks: Sequence[Sequence[int]], left_out: frozenset[int] = frozenset()) -> pd.DataFrame:
    """At most `MAX_SAMPLES` rows of `samples`: see `extremes`."""
    return samples(blocks, left_out).iloc[extremes(milliseconds(blocks), MAX_SAMPLES)]


def extremes(values: npt.NDArray[np.float64], most: int) -> list[int]:
    """The positions of at most `most` values; every bucket keeps its extremes, so that spikes are visible."""
    if len(values) <= most:
        return list(range(len(values)))
    indices: set[int] = set()
    for bucket in np.array_split(np.arange(len(values)), most // 2):
        own = values[bucket]
        indices |= {int(bucket[own.argmin()]), int(bucket[own.argmax()])}
    return sorted(indices)


def block_starts(blocks: Sequence[Sequence[int]]) -> pd.DataFrame:
    """Where each block but the first begins, half an iteration early, for the dashed rules."""
    lengths = [len(block) for block in blocks[:-1]]
    return pd.DataFrame({"iteration": np.cumsum(lengths, dtype=np.float64) + 0.5})


def bulk(values: Milliseconds) -> Milliseconds:
    """The samples of a histogram: without the slowest hundredth if it would take most of the axis."""
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
