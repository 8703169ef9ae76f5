"""Recordings of devices while a case ran."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, TypeVar

from .json_values import JsonValue, integers, name_in, name_of, text_of, texts_of

T = TypeVar("T")

#: Also the difference of two time stamps fits into an int64.
_STAMP = 2**62

#: The device of a recording that is about CPUs and processes; others are named by a GPU's UUID.
HOST = "host"


@dataclass(frozen=True, slots=True)
class Recording:
    """The rows of one device: row i covers the time from `started_ns[i]` to `ended_ns[i]`, CLOCK_MONOTONIC.

    `device` is a GPU's UUID, or HOST. `values` maps a column to a value per row, None where there was none;
    columns and units are those of `runner.telemetry.columns`. `utilisation_source` says where GPU utilisation
    came from and is `none` for the host. `notes` are sentences about missing values and the reasons.
    """

    device: str
    name: str
    utilisation_source: str
    started_ns: tuple[int, ...]
    ended_ns: tuple[int, ...]
    values: Mapping[str, tuple[float | None, ...]]
    notes: tuple[str, ...] = ()

    def within(self, started_ns: int, ended_ns: int) -> "Recording":
        """Only the rows that lie wholly inside a window."""
        places = [
            i
            for i, (start, end) in enumerate(zip(self.started_ns, self.ended_ns, strict=True))
            if started_ns <= start and end <= ended_ns
        ]
        return Recording(
            self.device,
            self.name,
            self.utilisation_source,
            _pick_values(self.started_ns, places),
            _pick_values(self.ended_ns, places),
            {column: _pick_values(values, places) for column, values in self.values.items()},
            self.notes,
        )

    def spans(self, column: str) -> list[tuple[float, int]]:
        """The values of a column, each with the length of its row in nanoseconds; missing values are left
        out.
        """
        rows = zip(self.values.get(column, ()), self.started_ns, self.ended_ns, strict=False)
        return [(value, ended - started) for value, started, ended in rows if value is not None]

    def to_body(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)


def mean_over_time(spans: Sequence[tuple[float, int]]) -> float | None:
    """The mean of values weighted by the length of their rows in nanoseconds; None without values."""
    whole = sum(ns for _, ns in spans)
    return sum(value * ns for value, ns in spans) / whole if whole else None


@dataclass(frozen=True, slots=True)
class TelemetryWindow:
    """One recording as in a list: its run, case and device, and its summary.

    `started_at` is the run's, `environment` a fingerprint, `hardware` a label. `seconds` go from the first
    row's start to the last one's end. `utilisation` (%) is the mean of what `utilisation_source` gives: SM
    utilisation for `gpm` and `dcgm`, GPU busy time for `samples` and `polling`, busy time of the CPUs for the
    host; numbers of two sources are never compared. `power` (W) is a mean, `temperature` (°C) the highest;
    means are weighted by the rows' lengths. Each is None where no row has it.
    """

    run: str
    started_at: datetime
    case: str
    environment: str
    environment_name: str
    torch_version: str
    hardware: str
    hardware_fingerprint: str
    machine: str
    replicate: int
    device: str
    name: str
    utilisation_source: str
    rows: int
    seconds: float
    utilisation: float | None
    power: float | None
    temperature: float | None

    @property
    def workload(self) -> str:
        """The case without its technique."""
        return self.case.rpartition("/")[0]


def _pick_values(values: Sequence[T], places: Sequence[int]) -> tuple[T, ...]:
    return tuple(values[i] for i in places)


def read_recording(at: JsonValue, *, strict: bool = True) -> Recording:
    """The inverse of `Recording.to_body`; raises the place's error. `strict` as in `read_outcome`."""
    started = integers(at.need("started_ns"), 0, _STAMP)
    ended = integers(at.need("ended_ns"), 0, _STAMP)
    values = {name: _column(column, strict) for name, column in at.need("values").object().items()}
    if {len(started)} != {len(started), len(ended), *map(len, values.values())}:
        raise at.place.error("has columns of different lengths")
    device = (name_of if strict else text_of)(at, "device")
    # Early journals have recordings without notes.
    notes = texts_of(at, "notes") if strict or at.get("notes") else ()
    source = text_of(at, name_in(at, "utilisation_source", "rung"))
    return Recording(device, text_of(at, "name"), source, started, ended, values, notes)


def _column(at: JsonValue, strict: bool) -> tuple[float | None, ...]:
    values: list[Any] = at.value if isinstance(at.value, list) else []
    if values and all(value is None or (type(value) is float and math.isfinite(value)) for value in values):
        return tuple(values)
    return tuple(None if each.value is None else each.as_written(finite=strict) for each in at.list())
