"""What the sampler tells: counters at a moment, and the rows of a telemetry window. Plain frozen records."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar, cast

from .capability import Rung

T = TypeVar("T")

#: The device of a recording that is about CPUs and processes; others are named by a GPU's UUID.
HOST = "host"


@dataclass(frozen=True, slots=True)
class HostCounters:
    """What the kernel has counted so far; only differences mean anything. Times are in nanoseconds.

    `busy_ns` and `steal_ns` are by CPU number, in ticks of 10 ms. `tree_ns` is the CPU time of the measured
    process and all below it, `delay_ns` what their threads waited on a run queue (None where the kernel does
    not tell), `ours_ns` the CPU time of what measures: controller, supervisors, sampler.
    """

    busy_ns: Mapping[int, int]
    steal_ns: Mapping[int, int]
    tree_ns: int
    delay_ns: int | None
    ours_ns: int


@dataclass(frozen=True, slots=True)
class GpuCounters:
    """What a GPU has counted so far; None or an absent reason where it does not tell.

    `throttled_ns` is by reason (see `nvml.THROTTLE_FIELDS`). `xids` are the critical errors that came since
    the reading before. `processes` are the compute processes' pids, and None where they are pids of another
    namespace and say nothing here.
    """

    uuid: str
    throttled_ns: Mapping[str, int] = field(default_factory=dict[str, int])
    energy_mj: int | None = None
    ecc_uncorrected: int | None = None
    pcie_replays: int | None = None
    xids: tuple[int, ...] = ()
    processes: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """All counters at one moment: `at_ns` is the middle of the reading, CLOCK_MONOTONIC.

    `host` is None and `gpus` empty for a source that did not answer; `trouble` then says why.
    """

    at_ns: int
    host: HostCounters | None = None
    gpus: tuple[GpuCounters, ...] = ()
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Recording:
    """Rows of one device: row i is about the time from `started_ns[i]` to `ended_ns[i]`, CLOCK_MONOTONIC.

    `values` maps a column to a value per row, None where there was none; columns and units are those of
    `columns.py`. `rung` says where GPU utilisation came from and is `none` for the host. `notes` say
    in sentences what is missing and why.
    """

    device: str
    name: str
    rung: Rung
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


def _picked(values: Sequence[T], kept: Sequence[int]) -> tuple[T, ...]:
    return tuple(values[i] for i in kept)
