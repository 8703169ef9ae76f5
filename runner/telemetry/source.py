"""The seam between measuring and what looks at the machine meanwhile."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from .reading import Reading, Recording


class Telemetry(Protocol):
    """What a session asks about the machine while nothing is timed. Nothing of it ever raises.

    `root` is a supervisor's process id: what lies below it is the measured tree.
    """

    def mark(self, root: int) -> Reading:
        """All counters now; with `trouble` where a source does not answer."""
        ...

    def watch(self, root: int, hz: float, cpus: tuple[int, ...] = ()) -> None:
        """Begin to sample; the host's rows are about `cpus` (none: the measured ones)."""
        ...

    def rest(self) -> tuple[Recording, ...]:
        """Stop sampling; every row since `watch`, a recording per device, the host first."""
        ...

    def close(self) -> None:
        """Leave no process behind."""
        ...


#: Called with a folder for what is sampled, the UUIDs of the GPUs in use, the measured CPUs (none: all), the
#: CPUs of what measures, and the session's token.
StartTelemetry = Callable[[Path, tuple[str, ...], tuple[int, ...], tuple[int, ...], str], Telemetry]
