"""The gate: what others did to the blocks of one contender, told by counters right before and after each."""

import time
from collections.abc import Mapping
from typing import Any

from ..telemetry.counters import Reading
from ..telemetry.host.cpu_offender import CpuTimes, Culprit, busiest, cpu_times, own_processes
from ..telemetry.interference import Taint, percent, tainted
from ..telemetry.telemetry_interface import Telemetry

#: A source that told nothing so often in a row is asked no more: each question may take seconds.
_PATIENCE = 3


class Gate:
    """Stands around the blocks of the contender whose supervisor is `root`; None: nothing can be told.

    `cpus` are the contender's (none: all there are), `own_cpus` those of what measures.
    """

    def __init__(
        self,
        telemetry: Telemetry | None,
        root: int,
        cpus: tuple[int, ...],
        own_cpus: tuple[int, ...],
        limit: float,
    ) -> None:
        self._telemetry = telemetry
        self._root = root
        self._cpus = cpus
        self._own_cpus = own_cpus
        self._limit = limit
        self._before: Reading | None = None
        self._own: frozenset[int] = frozenset()
        self._troubles: dict[str, None] = {}
        self._silent = 0
        self._first: tuple[float, CpuTimes] | None = None

    def before(self) -> None:
        """Read the counters; nothing is timed yet."""
        self._before = self._read()
        # A child of ours may be gone after the block: nobody could say then whose it was.
        self._own = own_processes() if _company(self._before) else frozenset()

    def after(self, wall_ns: int) -> Taint | None:
        """Read them again, and say what disturbed the block of `wall_ns` between."""
        before, after = self._before, self._read()
        if before is None or after is None:
            return None
        taint = tainted(
            before,
            after,
            wall_ns,
            self._cpus,
            self._limit,
            own_cpus=self._own_cpus,
            own=self._own | own_processes() if _company(before) or _company(after) else (),
        )
        if taint and taint.cause == "cpu" and self._first is None:
            self._first = time.monotonic(), cpu_times()
        return taint

    def culprit(self) -> Culprit | None:
        """Who used most of the CPUs since others first disturbed a block, as far as can be seen."""
        if self._first is None:
            return None
        since, before = self._first
        return busiest(before, cpu_times(), time.monotonic() - since, self._cpus, own_processes())

    def facts(self) -> Mapping[str, Any]:
        """What the sources could not tell."""
        return {"telemetry_notes": list(self._troubles)} if self._troubles else {}

    def _read(self) -> Reading | None:
        if self._telemetry is None or self._silent >= _PATIENCE:
            return None
        reading = self._telemetry.mark(self._root)
        if reading.trouble:
            self._troubles[reading.trouble] = None
        self._silent = 0 if reading.host or reading.gpus else self._silent + 1
        return reading


def _company(reading: Reading | None) -> bool:
    return reading is not None and any(gpu.processes for gpu in reading.gpus)


def blamed(culprit: Culprit | None) -> str:
    """The rest of a sentence about others; empty where nobody can be named."""
    if culprit is None:
        return ""
    return f"; {culprit.name} (pid {culprit.pid}) used {percent(culprit.share)} of one"
