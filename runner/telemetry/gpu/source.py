"""The GPUs as the sampler reads them, found by UUID: counters at a moment, and rows from the best source."""

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from common.processes import descendants

from ..capability import UtilisationSource
from ..sample_log import SampleLog, bare
from ..telemetry_interface import GpuCounters
from .nvml import (
    GPM_METRICS,
    SHORTEST_WINDOW_SECONDS,
    Absent,
    Gpm,
    N,
    ask,
    busy_source,
    computing_pids,
    gpm_of,
    gpus,
    memory,
    mig_devices,
    processes,
    text,
    throttled_ns,
)

#: The first pid namespace's inode, the same on every Linux (PROC_PID_INIT_INO).
_FIRST_NAMESPACE = "pid:[4026531836]"
#: A process that computes on a GPU holds it open.
_COMPUTES = "/dev/nvidia-uvm"


class Pids:
    """Process ids as seen from here. `controller` is the root of our processes, `members` are measured."""

    def __init__(self, controller: int, members: Callable[[], frozenset[int]]) -> None:
        self._controller = controller
        self._members = members

    def measured(self, pid: int) -> bool:
        """Whether it is one of the measured processes."""
        return pid in self._members()

    def visible(self, listed: Collection[int]) -> tuple[int, ...] | None:
        """The ids in order; None where ours must be among them and is not: they are another namespace's."""
        if listed and not _in_the_first_namespace():
            ours = {self._controller, *(pid for pid, _ in descendants(self._controller))} - {os.getpid()}
            if ours.isdisjoint(listed) and any(_computes(pid) for pid in ours):
                return None
        return tuple(sorted(listed))


def _in_the_first_namespace() -> bool:
    try:
        return os.readlink("/proc/self/ns/pid") == _FIRST_NAMESPACE
    except OSError:
        return False


def _computes(pid: int) -> bool:
    return any(name.startswith(_COMPUTES) for name in _open_files(pid))


def _open_files(pid: int) -> Iterator[str]:
    """The paths of its open files, devices included, which psutil's `open_files` leaves out."""
    try:
        entries = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return
    for entry in entries:
        try:
            yield os.readlink(entry)
        except OSError:
            continue


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
    """The driver's samples of the utilisation of one device, fetched from time to time.

    `spacing_ns` is the usual time between two of them.
    """

    def __init__(self, handle: Any) -> None:
        self._handle = handle
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
        answer = ask(N.nvmlDeviceGetSamples, self._handle, N.NVML_GPU_UTILIZATION_SAMPLES, since_us)
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


#: With these it makes no sense to ask the same thing again.
_FOR_GOOD = (N.NVML_ERROR_NOT_SUPPORTED, N.NVML_ERROR_FUNCTION_NOT_FOUND, N.NVML_ERROR_NO_PERMISSION)
#: The driver's buffer holds many seconds; asking it is the dearest of all calls.
_FETCH_SECONDS = 1.0
#: A row this many times as long as the buffer's samples lie apart holds at least one of them whole.
_ROW_SPACINGS = 2.1
#: If sampling the hardware counters takes a larger share of a row, the start of its mean is unknown.
_SLOWEST_SHARE = 0.2
#: The driver samples what processes use once a second or more often: what is as old belongs to a reading.
_PROCESS_SAMPLE_US = 1_000_000
#: The reasons that make a column (`nvml.THROTTLE_FIELDS`).
_CAUSES: Mapping[str, tuple[str, ...]] = {
    "throttled_power": ("power",),
    "throttled_heat": ("thermal", "sw_thermal", "hw_thermal"),
    "throttled_hardware": ("board", "reliability", "hw_power_brake"),
}
_MIB = 2**20
_SM = "SM utilisation"


class GpuDevice:
    """One GPU, or one MIG device: what instances share is then asked of `parent`.

    Every answer is a value or None with a note; a device that is lost is not asked again.
    """

    def __init__(self, handle: Any, parent: Any, pids: Pids) -> None:
        self._handle = handle
        self._whole = handle if parent is None else parent
        self._pids = pids
        self.uuid = text(ask(N.nvmlDeviceGetUUID, handle))
        self.name = text(ask(N.nvmlDeviceGetName, handle))
        self.board = text(ask(N.nvmlDeviceGetUUID, self._whole))
        #: No MIG device.
        self.whole = parent is None
        self.xids: list[int] = []
        self.lost = ""
        self._absent: set[str] = set()
        self._notes: dict[str, str] = {}
        gpm = gpm_of(handle, parent)
        self._gpm: Gpm | None = None
        self._chained = False
        if isinstance(gpm, Absent):
            self._note_refusal(_SM, gpm)
        else:
            self._gpm = gpm
        self.utilisation_source: UtilisationSource = "gpm" if self._gpm else busy_source(handle)
        buffer = DriverBuffer(handle)
        self._buffer = None if isinstance(buffer.start(), Absent) else buffer
        self._started_ns = 0
        self._energy_mj: int | None = None
        self._throttled: Mapping[str, int] = {}
        self._next_fetch = 0.0
        self._read_us = time.time_ns() // 1000

    def counters(self) -> GpuCounters:
        """All counters now; hands over the Xids that came in since the last time."""
        running = self._ask("processes", processes, self._handle)
        busy = self._ask("processes at work", computing_pids, self._whole, self._read_us - _PROCESS_SAMPLE_US)
        self._read_us = time.time_ns() // 1000
        room = self._ask("memory", memory, self._handle) or {}
        xids, self.xids = tuple(self.xids), []
        return GpuCounters(
            self.uuid,
            self._ask("throttle time", throttled_ns, self._whole) or {},
            self._ask("ECC errors", N.nvmlDeviceGetTotalEccErrors, self._whole, 1, N.NVML_VOLATILE_ECC),
            self._ask("PCIe replays", N.nvmlDeviceGetPcieReplayCounter, self._whole),
            xids,
            None if running is None else self._pids.visible(running),
            None if busy is None else tuple(sorted(busy)),
            # What the driver reserves is neither used nor free; old ones count it as used.
            1 - (room["used"] + room.get("reserved", 0)) / room["total"] if room.get("total") else None,
        )

    def begin(self, hz: float, log: SampleLog) -> float:
        """Start the first row; return the seconds from row to row that this device allows."""
        log.device(self.uuid, self.name, self.utilisation_source)
        seconds = 1 / hz
        if self._gpm:
            # A tenth more than the limit: a row that begins late must not end too early.
            seconds = max(seconds, 1.1 * SHORTEST_WINDOW_SECONDS)
        if self._buffer and not self.lost:
            self._buffer.start()
            if self.utilisation_source == "samples":
                seconds = max(seconds, _ROW_SPACINGS * self._buffer.spacing_ns / 1e9)
        self._next_fetch = time.monotonic() + _FETCH_SECONDS
        self._started_ns = self._start_gpm() or time.monotonic_ns()
        self._deltas(1.0)
        return seconds

    def row(self, log: SampleLog) -> None:
        """End a row and start the next; a row too short for the hardware counters goes on instead."""
        placed = self._read_gpm()
        if placed is None:
            return
        values, ended = placed
        ended = ended or time.monotonic_ns()
        values |= self._deltas((ended - self._started_ns) / 1e9)
        values |= self._now()
        log.row(self.uuid, self._started_ns, ended, values)
        self._started_ns = ended
        if time.monotonic() >= self._next_fetch:
            self.fetch(log)
        self.log_notes(log)

    def fetch(self, log: SampleLog) -> None:
        """Take over what the driver has buffered since the last time."""
        self._next_fetch = time.monotonic() + _FETCH_SECONDS
        if self._buffer is None or self.lost:
            return
        spans = self._buffer.next()
        if isinstance(spans, Absent):
            self._note_refusal("busy time", spans)
        elif spans is None:
            log.note(self.uuid, "the clock was set meanwhile: busy time of that moment cannot be placed")
        else:
            for span in spans:
                log.sample(self.uuid, "gpu_busy", span.started_ns, span.ended_ns, span.value)

    def log_notes(self, log: SampleLog) -> None:
        """What is missing and why; the end of a device is all there is to say about it."""
        for what, reason in self._notes.items():
            if not self.lost:
                log.note(self.uuid, f"no {what}: {reason}")
        if self.lost:
            log.note(self.uuid, self.lost)

    def _start_gpm(self) -> int:
        """Begin a window of the hardware counters; answers its moment, 0 if there is none."""
        self._chained = False
        if self._gpm is None or self.lost:
            return 0
        refused = self._gpm.start()
        if refused is not None:
            self._note_refusal(_SM, refused)
            return 0
        self._chained = True
        return sum(self._gpm.taken_ns) // 2

    def _read_gpm(self) -> tuple[dict[str, float | None], int] | None:
        """Means of the hardware counters and the moment they end at, 0 if any will do; None to go on."""
        if self._gpm is None or self.lost:
            return {}, 0
        if not self._chained:
            return {}, self._start_gpm()
        first = self._gpm.taken_ns
        means = self._gpm.next()
        last = self._gpm.taken_ns
        if isinstance(means, Absent):
            if not means.code:
                return None
            self._note_refusal(_SM, means)
            # The next window must not reach back into this row.
            return {}, self._start_gpm()
        if max(first[1] - first[0], last[1] - last[0]) > _SLOWEST_SHARE * (last[0] - first[1]):
            self._notes[f"{_SM} for some rows"] = "the driver took too long to sample its counters"
            means = {}
        return {name: means.get(name) for name in GPM_METRICS}, sum(last) // 2

    def _deltas(self, seconds: float) -> dict[str, float | None]:
        """What counters say of the row: joules, and percent of the time in which the clock was held down.

        Reasons overlap in time by an unknown amount: only the one that held it longest is certain.
        """
        energy = self._ask("energy", N.nvmlDeviceGetTotalEnergyConsumption, self._handle)
        throttled = self._ask("throttle time", throttled_ns, self._whole)
        values: dict[str, float | None] = {"energy": None, "throttled": None, **dict.fromkeys(_CAUSES)}
        if energy is not None and self._energy_mj is not None and energy >= self._energy_mj:
            values["energy"] = (energy - self._energy_mj) / 1e3
        if throttled is not None and self._throttled:
            before = self._throttled
            growth = {reason: now - before[reason] for reason, now in throttled.items() if reason in before}
            if growth and min(growth.values()) >= 0:
                values["throttled"] = min(100.0, max(growth.values()) / seconds / 1e7)
                for cause, reasons in _CAUSES.items():
                    own = [growth[reason] for reason in reasons if reason in growth]
                    values[cause] = min(100.0, max(own) / seconds / 1e7) if own else None
        self._energy_mj, self._throttled = energy, throttled or {}
        return values

    def _now(self) -> dict[str, float | None]:
        """What holds at the end of a row."""
        h = self._handle
        power = self._ask("power", N.nvmlDeviceGetPowerUsage, h)
        room = self._ask("memory", memory, h) or {}
        values: dict[str, float | None] = {
            "power": None if power is None else power / 1e3,
            "sm_clock": self._ask("SM clock", N.nvmlDeviceGetClockInfo, self._whole, N.NVML_CLOCK_SM),
            "memory_clock": self._ask(
                "memory clock", N.nvmlDeviceGetClockInfo, self._whole, N.NVML_CLOCK_MEM
            ),
            "temperature": self._ask(
                "temperature", N.nvmlDeviceGetTemperature, self._whole, N.NVML_TEMPERATURE_GPU
            ),
            "memory_temperature": self._ask("memory temperature", memory_temperature, self._whole),
            "process_memory": self._process_memory(),
        }
        values |= {f"memory_{name}": room[name] / _MIB for name in ("used", "reserved") if name in room}
        if self._buffer is None:
            rates = self._ask("busy time", N.nvmlDeviceGetUtilizationRates, h)
            values["gpu_busy_polled"] = None if rates is None else rates.gpu
        return values

    def _process_memory(self) -> float | None:
        """MiB of the measured processes; None where none of them is listed."""
        running: Mapping[int, int | None] = self._ask("processes", processes, self._handle) or {}
        sizes = [size for pid, size in running.items() if size is not None and self._pids.measured(pid)]
        return sum(sizes) / _MIB if sizes else None

    def _ask(self, what: str, call: Callable[..., Any], *arguments: Any) -> Any:
        """A value, or None and a note."""
        if self.lost or what in self._absent:
            return None
        answer = ask(call, *arguments)
        if isinstance(answer, Absent):
            self._note_refusal(what, answer)
            return None
        return answer

    def _note_refusal(self, what: str, why: Absent) -> None:
        if why.code == N.NVML_ERROR_GPU_IS_LOST:
            self.lost = why.reason
        self._notes.setdefault(what, why.reason)
        if why.code in _FOR_GOOD:
            self._absent.add(what)


def memory_temperature(handle: Any) -> int | Absent:
    """Degrees of the device's memory."""
    answer = ask(N.nvmlDeviceGetFieldValues, handle, [N.NVML_FI_DEV_MEMORY_TEMP])
    if isinstance(answer, Absent):
        return answer
    (value,) = answer
    if value.nvmlReturn != N.NVML_SUCCESS:
        return Absent("this device does not support it", int(value.nvmlReturn))
    return int(value.value.uiVal)


#: More events than this at once are a storm, of which the first are enough.
_MOST_EVENTS = 64


class GpuSource:
    """Counters and rows of the devices in `uuids`, which may lack NVML's prefixes `GPU-` and `MIG-`."""

    def __init__(self, uuids: Sequence[str], pids: Pids) -> None:
        self._uuids = uuids
        self._pids = pids
        self._devices: list[GpuDevice] = []
        #: By UUID as it was given: why there are no readings of it.
        self._missing: dict[str, str] = {}
        self._events: Any = None

    def open(self) -> None:
        """Start NVML and find the devices."""
        started = ask(N.nvmlInit)
        if isinstance(started, Absent):
            self._missing = dict.fromkeys(self._uuids, started.reason)
            return
        known = {bare(text(ask(N.nvmlDeviceGetUUID, handle))): (handle, parent) for handle, parent in _all()}
        for uuid in self._uuids:
            if found := known.get(bare(uuid)):
                self._devices.append(GpuDevice(*found, self._pids))
            else:
                self._missing[uuid] = f"NVML lists no device {uuid}"
        self._listen({bare(device.board) for device in self._devices}, known)

    def read_counters(self, root: int) -> tuple[tuple[GpuCounters, ...], str]:
        """All counters now, and which devices are lost."""
        self._drain()
        counters = tuple(device.counters() for device in self._devices)
        lost = [f"{device.uuid}: {device.lost}" for device in self._devices if device.lost]
        return counters, "; ".join([*self._missing.values(), *lost])

    def begin(self, root: int, hz: float, log: SampleLog, cpus: tuple[int, ...] = ()) -> float:
        """Start the first rows; answers the seconds from row to row, those of the slowest device."""
        for uuid, reason in self._missing.items():
            log.device(uuid, "", "none")
            log.note(uuid, reason)
        return max((device.begin(hz, log) for device in self._devices), default=1 / hz)

    def row(self, log: SampleLog) -> None:
        """End each device's row and start the next."""
        for device in self._devices:
            device.row(log)

    def end(self, log: SampleLog) -> None:
        """Take over what is still buffered elsewhere."""
        for device in self._devices:
            device.fetch(log)
        for device in self._devices:
            device.log_notes(log)

    def _listen(self, boards: set[str], known: dict[str, tuple[Any, Any]]) -> None:
        """Have Xids of these GPUs kept for us; what does not offer that is silent."""
        events = ask(N.nvmlEventSetCreate)
        if isinstance(events, Absent):
            return
        self._events = events
        for board in boards & known.keys():
            ask(N.nvmlDeviceRegisterEvents, known[board][0], N.nvmlEventTypeXidCriticalError, events)

    def _drain(self) -> None:
        if self._events is None:
            return
        for _ in range(_MOST_EVENTS):
            event = ask(N.nvmlEventSetWait_v2, self._events, 0)
            if isinstance(event, Absent):
                return
            board = text(ask(N.nvmlDeviceGetUUID, event.device))
            for device in self._devices:
                if device.board == board:
                    device.xids.append(int(event.eventData))


def _all() -> Iterator[tuple[Any, Any]]:
    """(device, its parent or None) of all GPUs and their MIG devices."""
    for handle in gpus():
        yield handle, None
        yield from ((mig, handle) for mig in mig_devices(handle))
