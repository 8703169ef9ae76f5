"""Detects what disturbed the blocks of one contender, from counters read right before and after each."""

import time
from collections.abc import Mapping
from typing import Any

from ..telemetry.counters import Reading
from ..telemetry.host.cpu_offender import CpuTimes, Offender, busiest, cpu_times, own_processes
from ..telemetry.interference import Interference, find_interference, percent
from ..telemetry.telemetry_interface import Telemetry

#: After this many readings in a row without data the telemetry is not read again: each may take seconds.
_MAX_EMPTY_READINGS = 3


class InterferenceCheck:
    """Checks the blocks of the contender whose supervisor is `root`; without `telemetry` it detects nothing.

    `cpus` are the contender's CPUs (none: all), `own_cpus` those of the controller, supervisor and sampler.
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
        self._problems: dict[str, None] = {}
        self._empty_readings = 0
        self._first: tuple[float, CpuTimes] | None = None

    def before(self) -> None:
        """Read the counters before a block."""
        self._before = self._read()
        # A child process may have ended after the block, and could then not be recognised as our own.
        self._own = own_processes() if _has_gpu_processes(self._before) else frozenset()

    def after(self, wall_ns: int) -> Interference | None:
        """Read the counters after a block of `wall_ns`; returns what disturbed it, None if nothing did."""
        before, after = self._before, self._read()
        if before is None or after is None:
            return None
        shared_gpu = _has_gpu_processes(before) or _has_gpu_processes(after)
        interference = find_interference(
            before,
            after,
            wall_ns,
            self._cpus,
            self._limit,
            own_cpus=self._own_cpus,
            own=self._own | own_processes() if shared_gpu else (),
        )
        if interference and interference.cause == "cpu" and self._first is None:
            self._first = time.monotonic(), cpu_times()
        return interference

    def offender(self) -> Offender | None:
        """The process that used the CPUs most since the first disturbed block; None if none is visible."""
        if self._first is None:
            return None
        since, before = self._first
        return busiest(before, cpu_times(), time.monotonic() - since, self._cpus, own_processes())

    def facts(self) -> Mapping[str, Any]:
        """Facts of the outcome: problems of the telemetry sources."""
        return {"telemetry_notes": list(self._problems)} if self._problems else {}

    def _read(self) -> Reading | None:
        if self._telemetry is None or self._empty_readings >= _MAX_EMPTY_READINGS:
            return None
        reading = self._telemetry.read(self._root)
        if reading.problem:
            self._problems[reading.problem] = None
        self._empty_readings = 0 if reading.host or reading.gpus else self._empty_readings + 1
        return reading


def _has_gpu_processes(reading: Reading | None) -> bool:
    return reading is not None and any(gpu.processes for gpu in reading.gpus)


def offender_clause(offender: Offender | None) -> str:
    """The end of a sentence about interference; empty without an offender."""
    if offender is None:
        return ""
    return f"; {offender.name} (pid {offender.pid}) used {percent(offender.share)} of one"
