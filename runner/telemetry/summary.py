"""From the recordings of a telemetry window to the metrics of its replicate."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median

from records.telemetry import HOST, Recording, mean_over_time

from ..worker.messages import Window
from .columns import COLUMNS, Summary

#: Fewer rows make no metric; a maximum needs only one row with a value, for some columns are read seldom.
_LEAST_ROWS = 3
#: What the driver averages over up to a second still holds what was before the window (NVML's utilisation
#: counters; nvml.h: 1 s down to 1/6 s), and so did rows of a DCGM host engine: by its interval of
#: 0.2 s, and 0.3 s were seen (github.com/NVIDIA/DCGM, issue 170). Counters of the hardware that we read
#: ourselves are read at both ends of each row.
_SETTLING_NS: Mapping[str, int] = {"dcgm": 500_000_000, "samples": 1_000_000_000, "polling": 1_000_000_000}
#: Energy counters move in steps of 20 to 100 ms: over less than this their error is no longer small.
_LEAST_ENERGY_NS = 1_000_000_000
#: Of less of the window than this, mean power is not the window's.
_LEAST_ENERGY_SHARE = 0.5
#: The driver answers mean power over the last second (nvml.h, nvmlDeviceGetPowerUsage: Ampere and newer),
#: whichever source the other columns have.
_POWER_SETTLING_NS = 1_000_000_000

#: A value of a column and the nanoseconds it is about.
Row = tuple[float, int]


def rows_of(recordings: Sequence[Recording], window: Window) -> tuple[Recording, ...]:
    """The recordings cut to what belongs to the window; one without rows keeps its notes."""
    cut: list[Recording] = []
    for one in recordings:
        steady_ns = window.started_ns + _SETTLING_NS.get(one.utilisation_source, 0)
        cut.append(one.within(steady_ns, window.ended_ns))
    return tuple(cut)


def summarise(
    recordings: Sequence[Recording], window: Window, items: float | None
) -> tuple[dict[str, float], tuple[str, ...]]:
    """Metrics by `columns.COLUMNS`, and notes on what gave none.

    `items` are those of one step, None where devices of which nothing was recorded computed some of them.

    Of several GPUs a mean or median is the mean over them, and a maximum is the largest. `energy_per_item` is
    in J: the energy of all GPUs over the window, by the items of its iterations.
    """
    notes: list[str] = []
    metrics: dict[str, list[float]] = {}
    for one in recordings:
        if len(one.started_ns) < _LEAST_ROWS:
            notes.append(f"{one.name or one.device}: fewer than {_LEAST_ROWS} rows in the window")
            continue
        for name in one.values:
            column = COLUMNS.get(name)
            if column is None or not column.metric:
                continue
            rows = _power_rows(one, window) if name == "power" else one.spans(name)
            if len(rows) >= (_LEAST_ROWS if column.summary == "mean" else 1):
                metrics.setdefault(column.metric, []).append(_HOW[column.summary](rows))
    found = {metric: _over_devices(metric, values) for metric, values in metrics.items()}
    energy = {} if items is None else _energy(recordings, window, items)
    return found | energy, tuple(notes)


def _power_rows(recording: Recording, window: Window) -> list[Row]:
    """Watts of each row from the energy counter; without one as answered, after the window's first second."""
    joules = recording.spans("energy")
    if len(joules) >= _LEAST_ROWS:
        return [(joule / ns * 1e9, ns) for joule, ns in joules if ns > 0]
    later = recording.within(window.started_ns + _POWER_SETTLING_NS, window.ended_ns)
    return later.spans("power")


def _mean(rows: Sequence[Row]) -> float:
    found = mean_over_time(rows)
    return fmean(value for value, _ in rows) if found is None else found


_HOW: Mapping[Summary, Callable[[Sequence[Row]], float]] = {
    "mean": _mean,
    "max": lambda rows: max(value for value, _ in rows),
    "median": lambda rows: median(value for value, _ in rows),
}


def _over_devices(metric: str, values: Sequence[float]) -> float:
    summary = next(column.summary for column in COLUMNS.values() if column.metric == metric)
    return max(values) if summary == "max" else fmean(values)


def _energy(recordings: Sequence[Recording], window: Window, items: float) -> dict[str, float]:
    """Rows lie within the window and fill half of it or more: their mean power holds for all of it."""
    length = window.ended_ns - window.started_ns
    done = window.iterations * items
    if length < _LEAST_ENERGY_NS or done <= 0:
        return {}
    joules: list[float] = []
    for one in recordings:
        if one.device == HOST:
            continue
        rows = one.spans("energy")
        covered = sum(ns for _, ns in rows)
        if len(rows) < _LEAST_ROWS or covered < _LEAST_ENERGY_SHARE * length:
            # Of some GPUs only, it would be the energy of nothing.
            return {}
        joules.append(sum(joule for joule, _ in rows) / covered * length)
    return {"energy_per_item": sum(joules) / done} if joules else {}
