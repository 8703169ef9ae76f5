"""The driver's buffer of samples, on the clock that everything else is on.

The driver stamps a sample with CLOCK_REALTIME in microseconds at the end of the time it is a mean over. That
clock may be set at any moment, so stamps are converted with its distance from CLOCK_MONOTONIC as it is when
they are fetched, and what lies about a step of it is thrown away.
"""

import time
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from .nvml import Absent, N, ask

#: As long as the clocks' distance moves no more between two fetches, the clock was not set.
_STEP_NS = 1_000_000
#: The member of NVML's union that holds a value, by the value's type.
_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
#: Between samples, where the buffer does not show it (nvml.h: a sixth of a second to a second).
_USUAL_SPACING_NS = 1_000_000_000 // 6


@dataclass(frozen=True, slots=True)
class Span:
    """A mean over the time from `started_ns` to `ended_ns`, CLOCK_MONOTONIC."""

    started_ns: int
    ended_ns: int
    value: float


class DriverBuffer:
    """One kind of samples of one device, fetched from time to time.

    `spacing_ns` is the usual time between two of them.
    """

    def __init__(self, handle: Any, kind: int) -> None:
        self._handle = handle
        self._kind = kind
        self._offset_ns = 0
        self._newest_us = 0
        self._ended_ns: int | None = None
        self._doubtful: frozenset[int] = frozenset()
        self.spacing_ns = _USUAL_SPACING_NS

    def start(self) -> Absent | None:
        """Fetch from here on: what the buffer already holds only shows how far its samples lie apart."""
        self._offset_ns = _offset_ns()
        found = self._fetch(0)
        if isinstance(found, Absent):
            return found
        stamps = [stamp for stamp, _ in found]
        if len(stamps) > 2:
            distances = [after - before for before, after in pairwise(stamps)]
            self.spacing_ns = int(median(distances) * 1000)
        self._doubtful = frozenset()
        self._newest_us = stamps[-1] if stamps else time.time_ns() // 1000
        self._ended_ns = stamps[-1] * 1000 + self._offset_ns if stamps else None
        return None

    def next(self) -> list[Span] | Absent | None:
        """The samples since the last fetch; None if the clock was set meanwhile and they cannot be placed."""
        before = _offset_ns()
        found = self._fetch(self._newest_us)
        offset = _offset_ns()
        if max(abs(before - self._offset_ns), abs(offset - before)) > _STEP_NS:
            self._start_anew()
            return None
        self._offset_ns = offset
        if isinstance(found, Absent):
            return found
        spans: list[Span] = []
        now = time.monotonic_ns()
        for stamp, value in found:
            ended = stamp * 1000 + offset
            if stamp in self._doubtful or ended > now:
                continue
            # The first sample of all is a mean over an unknown time.
            if self._ended_ns is not None and ended > self._ended_ns:
                spans.append(Span(self._ended_ns, ended, value))
            self._newest_us, self._ended_ns = stamp, ended
        return spans

    def _start_anew(self) -> None:
        """Forget the place: stamps of before the step may lie in the future now, and are not believed."""
        self._offset_ns = _offset_ns()
        self._newest_us, self._ended_ns = time.time_ns() // 1000, None
        found = self._fetch(0)
        self._doubtful = frozenset() if isinstance(found, Absent) else frozenset(stamp for stamp, _ in found)

    def _fetch(self, since_us: int) -> list[tuple[int, float]] | Absent:
        """(stamp, value) of every sample after a stamp, the oldest first."""
        answer = ask(N.nvmlDeviceGetSamples, self._handle, self._kind, since_us)
        if isinstance(answer, Absent):
            # Nothing new is no problem.
            return [] if answer.code == N.NVML_ERROR_NOT_FOUND else answer
        kind, samples = answer
        member = _MEMBERS[kind] if 0 <= kind < len(_MEMBERS) else _MEMBERS[1]
        found = ((int(each.timeStamp), float(getattr(each.sampleValue, member))) for each in samples)
        return sorted((stamp, value) for stamp, value in found if stamp > since_us)


def _offset_ns() -> int:
    """CLOCK_MONOTONIC minus CLOCK_REALTIME, by the tightest of three looks."""
    looks: list[tuple[int, int]] = []
    for _ in range(3):
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        looks.append((after - before, (before + after) // 2 - wall))
    return min(looks)[1]
