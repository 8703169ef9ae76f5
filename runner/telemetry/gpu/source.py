"""The GPUs as the sampler reads them, found by UUID."""

from collections.abc import Iterator, Sequence
from typing import Any

from ..sample_log import SampleLog, bare
from ..telemetry_interface import GpuCounters
from .device import GpuDevice
from .nvml import Absent, N, ask, gpus, mig_devices, text
from .processes import Pids

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

    def open(self) -> str:
        """Start NVML and find the devices; answers why some of them are missing, or the empty string."""
        started = ask(N.nvmlInit)
        if isinstance(started, Absent):
            self._missing = dict.fromkeys(self._uuids, started.reason)
            return started.reason
        known = {bare(text(ask(N.nvmlDeviceGetUUID, handle))): (handle, parent) for handle, parent in _all()}
        for uuid in self._uuids:
            if found := known.get(bare(uuid)):
                self._devices.append(GpuDevice(*found, self._pids))
            else:
                self._missing[uuid] = f"NVML lists no device {uuid}"
        self._listen({bare(device.board) for device in self._devices}, known)
        return "; ".join(self._missing.values())

    def read(self, root: int) -> tuple[tuple[GpuCounters, ...], str]:
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
