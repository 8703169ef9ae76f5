"""Record what NVML says over some seconds, as a script that the stand-in for NVML (`nvml.py`) plays again.

    python tests/support/fakes/nvml_trace.py FILE [--seconds 10] [--hz 5]

Start the GPU work first; Ctrl-C ends the recording early. The script's language is that of
`nvml_devices/shim.c`: `MILLISECONDS DEVICE KEY VALUE` a line, each value holding until the next. It names no
machine: UUIDs and process ids are replaced.
"""

import argparse
import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from runner.telemetry.gpu.nvml import (
    GPM_METRICS,
    THROTTLE_FIELDS,
    Absent,
    Gpm,
    N,
    ask,
    gpus,
    has_gpm,
    library,
    memory,
    processes,
    text,
    throttled_ns,
)
from runner.telemetry.sampler import MOST_HZ


class NothingToRecord(Exception):
    """There is no NVML or no GPU; the text says why."""


def record(seconds: float, hz: float, write: Callable[[str], object]) -> None:
    """Hand `write` the script's lines as they come, for `seconds`.

    Raises NothingToRecord.
    """
    with library() as absent:
        if absent is not None:
            raise NothingToRecord(absent.reason)
        devices = [_Recorded(index, handle) for index, handle in enumerate(gpus())]
        if not devices:
            raise NothingToRecord("the driver lists no GPU")
        try:
            _write_all(devices, seconds, 1 / min(hz, MOST_HZ), write)
        finally:
            for device in devices:
                device.close()


def _write_all(
    devices: "list[_Recorded]", seconds: float, period: float, write: Callable[[str], object]
) -> None:
    version = ask(N.nvmlSystemGetCudaDriverVersion)
    lines = [f"0 - driver {text(ask(N.nvmlSystemGetDriverVersion))}", f"0 - cuda {text(version)}"]
    lines += [f"0 {line}" for device in devices for line in device.constants()]
    started = time.monotonic()
    for number in range(1, int(seconds / period) + 2):
        for line in lines:
            write(line + "\n")
        time.sleep(max(0.0, started + number * period - time.monotonic()))
        # Means belong to the time before they are read: they hold from the reading before.
        lines = [f"{at} {line}" for device in devices for at, line in device.changes(started)]


class _Recorded:
    """One GPU: what it was, and what has changed."""

    def __init__(self, index: int, handle: Any) -> None:
        self._index = index
        self._handle = handle
        self._last: dict[str, str] = {}
        self._throttled: dict[str, int] = {}
        self._at = time.monotonic()
        gpm = Gpm(handle) if has_gpm(handle) is True else None
        self._gpm = gpm if gpm is not None and gpm.start() is None else None

    def constants(self) -> Iterator[str]:
        """What does not change, then what holds at the start."""
        h, i = self._handle, self._index
        capability = ask(N.nvmlDeviceGetCudaComputeCapability, h)
        known = {
            "uuid": f"GPU-{i:08d}-0000-0000-0000-000000000000",
            "name": text(ask(N.nvmlDeviceGetName, h)),
            "cc": "" if isinstance(capability, Absent) else "{}.{}".format(*capability),
            "gpm": "1" if self._gpm else "0",
            "power_limit_mw": text(ask(N.nvmlDeviceGetEnforcedPowerLimit, h)),
            "energy_mj": text(ask(N.nvmlDeviceGetTotalEnergyConsumption, h)) and "0",
            "clock_sm_max": text(ask(N.nvmlDeviceGetMaxClockInfo, h, N.NVML_CLOCK_SM)),
            "clock_memory_max": text(ask(N.nvmlDeviceGetMaxClockInfo, h, N.NVML_CLOCK_MEM)),
        }
        yield from (f"{i} {key} {value}" for key, value in known.items() if value)
        self._throttled = self._counters()
        yield from (f"{i} {line}" for line in self._changed(self._moment()))

    def changes(self, started: float) -> Iterator[tuple[int, str]]:
        """(milliseconds since `started`, line) of everything that is not as it was."""
        before, self._at = self._at, time.monotonic()
        now, then = round((self._at - started) * 1e3), max(0, round((before - started) * 1e3))
        yield from ((then, f"{self._index} {line}") for line in self._changed(self._means(self._at - before)))
        yield from ((now, f"{self._index} {line}") for line in self._changed(self._moment()))

    def close(self) -> None:
        """Free what the counters hold."""
        if self._gpm:
            self._gpm.close()

    def _changed(self, values: dict[str, str]) -> Iterator[str]:
        for key, value in values.items():
            if value and self._last.get(key) != value:
                self._last[key] = value
                yield f"{key} {value}"

    def _moment(self) -> dict[str, str]:
        h = self._handle
        busy, room, running = ask(N.nvmlDeviceGetUtilizationRates, h), memory(h), processes(h)
        values = {
            "power_mw": text(ask(N.nvmlDeviceGetPowerUsage, h)),
            "clock_sm": text(ask(N.nvmlDeviceGetClockInfo, h, N.NVML_CLOCK_SM)),
            "clock_memory": text(ask(N.nvmlDeviceGetClockInfo, h, N.NVML_CLOCK_MEM)),
            "temperature": text(ask(N.nvmlDeviceGetTemperature, h, N.NVML_TEMPERATURE_GPU)),
            "ecc_corrected": text(ask(N.nvmlDeviceGetTotalEccErrors, h, 0, N.NVML_VOLATILE_ECC)),
            "ecc_uncorrected": text(ask(N.nvmlDeviceGetTotalEccErrors, h, 1, N.NVML_VOLATILE_ECC)),
            "pcie_replay": text(ask(N.nvmlDeviceGetPcieReplayCounter, h)),
        }
        if not isinstance(busy, Absent):
            values |= {"gpu_busy": str(busy.gpu), "memory_busy": str(busy.memory)}
        if not isinstance(room, Absent):
            values |= {f"memory_{name}": str(int(size)) for name, size in room.items()}
        if not isinstance(running, Absent):
            sizes = enumerate(sorted(running.values(), key=lambda size: size or 0), start=1)
            values["processes"] = ",".join(f"{number}:{size or 0}" for number, size in sizes) or "-"
        return values

    def _means(self, seconds: float) -> dict[str, str]:
        before, self._throttled = self._throttled, self._counters()
        values = {
            f"throttle_{THROTTLE_FIELDS[reason]}": f"{(now - before.get(reason, now)) / seconds / 1e9:.6g}"
            for reason, now in self._throttled.items()
        }
        means = self._gpm.next() if self._gpm else Absent("no counters")
        if not isinstance(means, Absent):
            values |= {f"gpm_{GPM_METRICS[name]}": f"{mean:.6g}" for name, mean in means.items()}
        return values

    def _counters(self) -> dict[str, int]:
        times = throttled_ns(self._handle)
        return {} if isinstance(times, Absent) else times


def main() -> None:
    """Record into a new file; the exit code is 2 where there is nothing to record, or the file exists."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--hz", type=float, default=5.0)
    options = parser.parse_args()
    file: Path = options.file
    try:
        with file.open("x") as out, contextlib.suppress(KeyboardInterrupt):
            record(options.seconds, options.hz, out.write)
    except FileExistsError:
        parser.error(f"{file} exists already; a trace does not replace a file")
    except NothingToRecord as error:
        file.unlink()
        parser.error(f"there is nothing to record: {error}")


if __name__ == "__main__":
    main()
