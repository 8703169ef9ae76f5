"""The panels of a recording, and their data."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
import pandas as pd

from dashboard.components import frames, wording
from dashboard.utilisation.window_charts import Panel, PanelScale, line_set
from records.telemetry import Recording, mean_over_time
from runner.telemetry.columns import COLUMNS

#: The most points in one chart, all panels together; of more, each bucket of a line keeps its smallest and
#: its largest row.
MAX_POINTS = 2000
#: The most rows with tooltips: each row is a separate mark in every panel.
MAX_HOVERED = 250
#: The most CPUs that are drawn as lines; more are drawn as a map of colours.
MAX_LINES = 6
#: Rows with a gap larger than this share of the row before are not joined.
_APART = 0.5

_Row = dict[str, Any]

#: Panels of a GPU, top to bottom: title, scale, and the lines as column and label. The first four are
#: utilisation by four sources, which never share a panel.
_GPU: Sequence[tuple[str, PanelScale, Mapping[str, str]]] = (
    (wording.utilisation_title("gpm"), "percent", {"sm_utilisation": "SM utilisation"}),
    (wording.utilisation_title("dcgm"), "percent", {"dcgm_sm_utilisation": "SM utilisation"}),
    (wording.utilisation_title("samples"), "percent", {"gpu_busy": "GPU busy"}),
    (wording.utilisation_title("polling"), "percent", {"gpu_busy_polled": "GPU busy"}),
    (
        "Occupancy, tensor cores, DRAM bandwidth (GPM)",
        "percent",
        {"sm_occupancy": "SM occupancy", "tensor": "tensor cores", "dram_bandwidth": "DRAM bandwidth"},
    ),
    (
        "Occupancy, tensor cores, DRAM bandwidth (DCGM)",
        "percent",
        {
            "dcgm_sm_occupancy": "SM occupancy",
            "dcgm_tensor": "tensor cores",
            "dcgm_dram_bandwidth": "DRAM bandwidth",
        },
    ),
    (
        "Arithmetic units (GPM)",
        "zero",
        {"fp32": "FP32", "fp16": "FP16", "tensor_half": "tensor FP16/BF16"},
    ),
    ("Power", "zero", {"power": "power"}),
    ("Clocks", "zero", {"sm_clock": "SM clock", "memory_clock": "memory clock"}),
    ("Temperature", "free", {"temperature": "GPU", "memory_temperature": "memory"}),
    (
        "GPU memory",
        "zero",
        {"memory_used": "used", "process_memory": "of this process", "memory_reserved": "driver's own"},
    ),
    ("Throttled", "zero", {"throttled": "throttled"}),
    ("PCIe", "zero", {"pcie_tx": "sent", "pcie_rx": "received"}),
    ("NVLink", "zero", {"nvlink_tx": "sent", "nvlink_rx": "received"}),
)
_HOST: Sequence[tuple[str, PanelScale, Mapping[str, str]]] = (
    ("Measured CPUs busy, mean", "percent", {"cpu_busy": "busy"}),
    (
        "CPU interference",
        "zero",
        {"foreign": "foreign CPU", "steal": "steal", "delay": "run-queue delay"},
    ),
    ("Memory of the process tree", "zero", {"tree_memory": "tree memory"}),
    ("CPU frequency", "zero", {"frequency": "frequency"}),
    ("Run queue", "zero", {"run_queue": "runnable"}),
    ("Context switches", "zero", {"switches": "switches"}),
    ("Pages on the local NUMA node", "percent", {"pages_local": "local pages"}),
)
#: Columns that are only in the CSV: power times the length of a row is not drawn.
_UNDRAWN = frozenset({"energy"})


def panels(recording: Recording) -> tuple[Panel, ...]:
    """The panels of a recording, top to bottom: those with values."""
    matches = [_each_cpu(recording), *(_panel(recording, *known) for known in (*_GPU, *_HOST))]
    specification = {column for _, _, lines in (*_GPU, *_HOST) for column in lines} | _UNDRAWN
    more = [column for column in recording.values if column not in specification and not _cpu(column)]
    # An unknown column of a newer sampler is shown under its name.
    matches += [_panel(recording, column, "zero", {column: column}) for column in more]
    return tuple(panel for panel in matches if panel is not None)


def without_values(recording: Recording) -> list[str]:
    """Columns without any value: whole panels, or a line of one."""
    missing: list[str] = []
    for title, _, labels in (*_GPU, *_HOST):
        columns = [column for column in labels if column in recording.values]
        silent = [column for column in columns if not _has_values(recording, column)]
        whole = silent == columns and silent
        missing += [title] if whole else [f"{title}: {labels[column]}" for column in silent]
    return missing


def origin(recordings: Iterable[Recording]) -> int:
    """The origin of the seconds of one window for all its devices, CLOCK_MONOTONIC in nanoseconds."""
    return min((recording.started_ns[0] for recording in recordings if recording.started_ns), default=0)


def length(recordings: Iterable[Recording]) -> float:
    """The end of the axis of all devices in seconds: the next tenth after the last row."""
    several = list(recordings)
    first = origin(several)
    last = max((recording.ended_ns[-1] for recording in several if recording.ended_ns), default=first)
    return max(0.1, float(np.ceil((last - first) / 1e8)) / 10)


def lines(recording: Recording, panels: Sequence[Panel], origin_ns: int) -> dict[str, pd.DataFrame]:
    """The lines of each panel by the name of its data: columns line, second, value, piece.

    A line is stepped: a row's value holds from where it began to where it ended. Rows without a value and
    time without a row separate pieces, which are not joined.
    """
    rows: dict[str, list[_Row]] = {}
    pieces = count()
    drawn_lines = [
        (place, *line) for place, panel in enumerate(panels) if not panel.heat for line in panel.lines
    ]
    for place, column, label in drawn_lines:
        own = rows.setdefault(line_set(place), [])
        for piece in _within(recording, column, max(4, MAX_POINTS // len(drawn_lines))):
            own += _steps(recording, column, piece, origin_ns, (label, next(pieces)))
    columns = ["line", "second", "value", "piece"]
    return {name: pd.DataFrame(own, columns=columns) for name, own in rows.items()}


def heat(recording: Recording, panels: Sequence[Panel], origin_ns: int) -> pd.DataFrame:
    """The map of all CPUs: columns began, ended (seconds), cpu, value; empty without values.

    With more cells than `MAX_POINTS` neighbouring rows are combined by their mean over time.
    """
    columns = ["began", "ended", "cpu", "value"]
    cells = [column for panel in panels if panel.heat for column, _ in panel.lines]
    if not cells:
        return pd.DataFrame(columns=columns)
    most = max(1, MAX_POINTS // len(cells))
    groups = np.array_split(np.arange(len(recording.started_ns)), min(most, len(recording.started_ns)))
    rows = [
        {
            "began": (recording.started_ns[int(group[0])] - origin_ns) / 1e9,
            "ended": (recording.ended_ns[int(group[-1])] - origin_ns) / 1e9,
            "cpu": int(column.removeprefix("cpu")),
            "value": mean,
        }
        for column in cells
        for group in groups
        if (mean := _mean(recording, column, group.tolist())) is not None
    ]
    return pd.DataFrame(rows, columns=columns)


def hover_rows(recording: Recording, origin_ns: int) -> pd.DataFrame:
    """The tooltips of rows: began, ended (seconds), and every column as text."""
    # Without tooltips the texts are not needed.
    if len(recording.started_ns) > MAX_HOVERED:
        return pd.DataFrame(columns=["began", "ended", *recording.values], dtype="float64")
    words = {
        column: ["no value" if value is None else wording.significant(value, 4) for value in values]
        for column, values in recording.values.items()
    }
    began = [(at - origin_ns) / 1e9 for at in recording.started_ns]
    ends = [(at - origin_ns) / 1e9 for at in recording.ended_ns]
    return pd.DataFrame({"began": began, "ended": ends, **words})


def table(recording: Recording, origin_ns: int) -> pd.DataFrame:
    """Every row and column of a recording, for CSV; cells without a value are empty."""
    seconds = {
        "began_s": [(at - origin_ns) / 1e9 for at in recording.started_ns],
        "ended_s": [(at - origin_ns) / 1e9 for at in recording.ended_ns],
    }
    columns = {f"{column} ({_unit(column)})": list(each) for column, each in recording.values.items()}
    return pd.DataFrame(
        {"device": recording.device, "utilisation_source": recording.utilisation_source, **seconds, **columns}
    )


def _each_cpu(recording: Recording) -> Panel | None:
    columns = sorted((c for c in recording.values if _cpu(c)), key=lambda c: int(c.removeprefix("cpu")))
    curves = tuple((column, column.upper().replace("CPU", "CPU ")) for column in columns)
    if not any(_has_values(recording, column) for column in columns):
        return None
    title = f"{curves[0][1]} busy" if len(curves) == 1 else "Each CPU busy"
    return Panel(title, "%", "percent", curves, heat=len(curves) > MAX_LINES)


def _panel(recording: Recording, title: str, scale: PanelScale, labels: Mapping[str, str]) -> Panel | None:
    curves = tuple((column, label) for column, label in labels.items() if _has_values(recording, column))
    return Panel(title, _unit(curves[0][0]), scale, curves) if curves else None


def _has_values(recording: Recording, column: str) -> bool:
    return any(value is not None for value in recording.values.get(column, ()))


def _cpu(column: str) -> bool:
    return column.startswith("cpu") and column.removeprefix("cpu").isdecimal()


def _mean(recording: Recording, column: str, rows: Iterable[int]) -> float | None:
    """The mean of some rows weighted by their length: some are thirty times as long as others."""
    return mean_over_time(
        [
            (value, recording.ended_ns[row] - recording.started_ns[row])
            for row in rows
            if (value := recording.values[column][row]) is not None
        ]
    )


def _unit(column: str) -> str:
    if _cpu(column):
        return "%"
    return COLUMNS[column].unit if column in COLUMNS else ""


def _within(recording: Recording, column: str, points: int) -> list[list[int]]:
    """The pieces of a line, reduced to the given number of points."""
    # Every row is one point, plus one where a piece begins, which may be at every row.
    pieces = _pieces(recording, column, points - 1)
    enough = sum(len(piece) + 1 for piece in pieces) <= points
    return pieces if enough else _pieces(recording, column, points // 2)


def _pieces(recording: Recording, column: str, most: int) -> list[list[int]]:
    """The drawn rows of a line in uninterrupted stretches."""
    values = recording.values[column]
    indices = set(_extreme_rows(values, most))
    stretches: list[list[int]] = [[]]
    for row, value in enumerate(values):
        if value is None or (row and _interrupted(recording, row - 1, row)):
            stretches.append([])
        if row in indices:
            stretches[-1].append(row)
    return [stretch for stretch in stretches if stretch]


def _extreme_rows(values: Sequence[float | None], most: int) -> list[int]:
    rows = [row for row, value in enumerate(values) if value is not None]
    numbers = np.array([values[row] for row in rows], dtype=np.float64)
    return [rows[place] for place in frames.extremes(numbers, most)]


def _interrupted(recording: Recording, before: int, after: int) -> bool:
    length_ns = recording.ended_ns[before] - recording.started_ns[before]
    return recording.started_ns[after] - recording.ended_ns[before] > _APART * length_ns


def _steps(
    recording: Recording, column: str, piece: Sequence[int], origin_ns: int, key: tuple[str, int]
) -> list[_Row]:
    values, (label, number) = recording.values[column], key
    moments = [recording.started_ns[piece[0]], *(recording.ended_ns[row] for row in piece)]
    step_values = [values[piece[0]], *(values[row] for row in piece)]
    return [
        {
            "line": label,
            "second": (moment - origin_ns) / 1e9,
            "value": value,
            "piece": number,
        }
        for moment, value in zip(moments, step_values, strict=True)
    ]
