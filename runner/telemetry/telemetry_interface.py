"""The interface between measuring and telemetry."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from records.telemetry import HOST, Recording

from .counters import Reading
from .sample_log import bare


class Telemetry(Protocol):
    """What a session asks about the machine while nothing is timed. Nothing of it ever raises.

    `root` is a supervisor's process id: what lies below it is the measured tree.
    """

    def read(self, root: int) -> Reading:
        """All counters now; with `problem` where a source does not answer."""
        ...

    def start(self, root: int, hz: float, cpus: tuple[int, ...] = ()) -> None:
        """Begin to sample; the host's rows are about `cpus` (none: the measured ones)."""
        ...

    def stop(self) -> tuple[Recording, ...]:
        """Stop sampling; every row since `watch`, a recording per device, the host first."""
        ...

    def close(self) -> None:
        """Leave no process behind."""
        ...


#: Called with a folder for what is sampled, the UUIDs of the GPUs in use, the measured CPUs (none: all), the
#: CPUs of what measures, and the session's token.
StartTelemetry = Callable[[Path, tuple[str, ...], tuple[int, ...], tuple[int, ...], str], Telemetry]


class FilteredTelemetry:
    """A session's telemetry as one of its contenders sees it: of the GPUs only those it computes on.

    The others are idle or belong to other cases, and their load is not recorded for it. `uuids` may lack
    NVML's prefixes.
    """

    def __init__(self, session: Telemetry, uuids: tuple[str, ...]) -> None:
        self._session = session
        self._own = {HOST, *map(bare, uuids)}

    def read(self, root: int) -> Reading:
        """All counters now, those of its own GPUs."""
        reading = self._session.read(root)
        return replace(reading, gpus=tuple(gpu for gpu in reading.gpus if bare(gpu.uuid) in self._own))

    def start(self, root: int, hz: float, cpus: tuple[int, ...] = ()) -> None:
        """Begin to sample."""
        self._session.start(root, hz, cpus)

    def stop(self) -> tuple[Recording, ...]:
        """Stop sampling; the recordings of the host and of its own GPUs."""
        return tuple(one for one in self._session.stop() if bare(one.device) in self._own)

    def close(self) -> None:
        """Nothing: it is the session's to close."""
