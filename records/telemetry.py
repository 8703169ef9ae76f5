"""What devices did while a case ran."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, TypeVar, cast

T = TypeVar("T")

#: The device of a recording that is about CPUs and processes; others are named by a GPU's UUID.
HOST = "host"


@dataclass(frozen=True, slots=True)
class Recording:
    """Rows of one device: row i is about the time from `started_ns[i]` to `ended_ns[i]`, CLOCK_MONOTONIC.

    `device` is a GPU's UUID, or HOST. `values` maps a column to a value per row, None where there was none;
    columns and units are those of `runner.telemetry.columns`. `rung` says where GPU utilisation came from
    and is `none` for the host. `notes` say in sentences what is missing and why.
    """

    device: str
    name: str
    rung: str
    started_ns: tuple[int, ...]
    ended_ns: tuple[int, ...]
    values: Mapping[str, tuple[float | None, ...]]
    notes: tuple[str, ...] = ()

    def within(self, started_ns: int, ended_ns: int) -> "Recording":
        """Only the rows that lie wholly inside a window."""
        kept = [
            i
            for i, (start, end) in enumerate(zip(self.started_ns, self.ended_ns, strict=True))
            if started_ns <= start and end <= ended_ns
        ]
        return Recording(
            self.device,
            self.name,
            self.rung,
            _picked(self.started_ns, kept),
            _picked(self.ended_ns, kept),
            {column: _picked(values, kept) for column, values in self.values.items()},
            self.notes,
        )

    def to_body(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)

    @staticmethod
    def from_body(body: Mapping[str, Any]) -> "Recording":
        """The inverse of `to_body`; raises TypeError, KeyError or ValueError for anything else."""
        rows = cast("Mapping[str, Sequence[float | None]]", body["values"])
        values = {str(column): tuple(each) for column, each in rows.items()}
        started = tuple(int(at) for at in body["started_ns"])
        if {len(started), len(body["ended_ns"]), *map(len, values.values())} != {len(started)}:
            raise ValueError("a recording's columns are of different lengths")
        return Recording(
            device=str(body["device"]),
            name=str(body["name"]),
            rung=body["rung"],
            started_ns=started,
            ended_ns=tuple(int(at) for at in body["ended_ns"]),
            values=values,
            notes=tuple(str(note) for note in body.get("notes", ())),
        )


@dataclass(frozen=True, slots=True)
class TelemetryWindow:
    """One recording as in a list: its run, case and device, and its summary.

    `started_at` is the run's, `environment` a fingerprint. `seconds` go from the first row's start to the
    last one's end. `utilisation` (%) is the mean of the source `rung`: SM utilisation for `gpm` and `dcgm`,
    GPU busy time for `samples` and `polling`, busy time of the CPUs for the host; numbers of two rungs are
    never compared. `power` (W) is a mean, `temperature` (°C) the highest; means are weighted by the rows'
    lengths. Each is None where no row has it.
    """

    run: str
    started_at: datetime
    case: str
    environment: str
    environment_name: str
    torch_version: str
    hardware: str
    machine: str
    replicate: int
    device: str
    name: str
    rung: str
    rows: int
    seconds: float
    utilisation: float | None
    power: float | None
    temperature: float | None


def _picked(values: Sequence[T], kept: Sequence[int]) -> tuple[T, ...]:
    return tuple(values[i] for i in kept)
