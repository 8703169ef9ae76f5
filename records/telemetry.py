"""What devices did while a case ran."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Recording:
    """What one device told of itself while a case ran; row i is about `started_ns[i]` to `ended_ns[i]`.

    Stamps are nanoseconds of CLOCK_MONOTONIC. `values` maps a column to a value per row, None where there
    was none. `rung` says where GPU utilisation came from, and is `none` for the host. `notes` say in
    sentences what is missing and why.
    """

    device: str
    name: str
    rung: str
    started_ns: tuple[int, ...]
    ended_ns: tuple[int, ...]
    values: Mapping[str, tuple[float | None, ...]]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TelemetryWindow:
    """One recording as in a list: whose it is, and what it comes to.

    `started_at` is the run's, `environment` a fingerprint. `seconds` go from the first row's start to the
    last one's end. `utilisation` (%) is the mean of what `rung` tells: SM utilisation for `gpm` and `dcgm`,
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
