"""Ask NVML for its capabilities, in a process of its own: a broken driver may never answer.

As a program (`python -m runner.telemetry.gpu.probe`) it asks and prints one line of JSON.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from ..capability import Capability, GpuCapabilities, Probe, UtilisationSource
from .card_state import card_health, card_state
from .nvml import (
    Absent,
    N,
    ask,
    busy_source,
    gpm_of,
    gpus,
    library,
    memory,
    mig_devices,
    processes,
    text,
    throttled_ns,
)

#: NVML answers in milliseconds; loading a driver for the first time takes seconds.
PATIENCE_SECONDS = 20.0


def examine(patience: float = PATIENCE_SECONDS) -> Probe:
    """The capabilities of NVML on this machine; never raises, takes about `patience` seconds at most."""
    # -P: a folder `runner` or `records` in the current one is not ours.
    command = [sys.executable, "-P", "-m", "runner.telemetry.gpu.probe"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=patience)
    except subprocess.TimeoutExpired:
        return Probe(absent=f"NVML does not answer: nothing within {patience:g} s")
    except OSError as error:
        return Probe(absent=f"NVML could not be asked: {error.strerror or error}")
    try:
        return Probe.from_body(json.loads(done.stdout))
    except (ValueError, TypeError, KeyError):
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return Probe(absent=f"NVML could not be asked: {last}")


def ask_all() -> Probe:
    """The capabilities of NVML, read in this process; may hang with the driver."""
    with library() as absent:
        if absent is not None:
            return Probe(absent=absent.reason)
        driver, version = text(ask(N.nvmlSystemGetDriverVersion)), ask(N.nvmlSystemGetCudaDriverVersion)
        cuda = "" if isinstance(version, Absent) else f"{version // 1000}.{version % 1000 // 10}"
        found: list[GpuCapabilities] = []
        for index, handle in enumerate(gpus()):
            found.append(_gpu(index, handle))
            found += [_gpu(index, mig, handle) for mig in mig_devices(handle)]
        return Probe(driver, cuda, tuple(found), "" if found else "the driver lists no GPU")


#: Each capability but utilisation: how it is read when it is there, and the call that shows whether it is.
_READINGS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "memory": ("used and reserved by the driver", memory),
    "process_memory": ("of each compute process", processes),
    "energy": ("counter in mJ", lambda h: ask(N.nvmlDeviceGetTotalEnergyConsumption, h)),
    "power": ("mean over 1 s on most devices", lambda h: ask(N.nvmlDeviceGetPowerUsage, h)),
    "power_limit": ("enforced", lambda h: ask(N.nvmlDeviceGetEnforcedPowerLimit, h)),
    "clocks": ("SM and memory, at the moment", lambda h: ask(N.nvmlDeviceGetClockInfo, h, N.NVML_CLOCK_SM)),
    "temperature": ("of the GPU", lambda h: ask(N.nvmlDeviceGetTemperature, h, N.NVML_TEMPERATURE_GPU)),
    "throttle_time": ("counters in ns by reason", throttled_ns),
    "ecc_errors": (
        "uncorrected, since the driver was loaded",
        lambda h: ask(N.nvmlDeviceGetTotalEccErrors, h, 1, N.NVML_VOLATILE_ECC),
    ),
    "pcie_replay": ("counter", lambda h: ask(N.nvmlDeviceGetPcieReplayCounter, h)),
}


def _gpu(index: int, handle: Any, parent: Any = None) -> GpuCapabilities:
    utilisation_source, utilisation = _utilisation(handle, parent)
    capabilities = [utilisation, _busy(handle)]
    for name, (how, read) in _READINGS.items():
        answer = read(handle)
        absent = isinstance(answer, Absent)
        capabilities.append(Capability(name, not absent, answer.reason if absent else how))
    return GpuCapabilities(
        index,
        text(ask(N.nvmlDeviceGetUUID, handle)),
        text(ask(N.nvmlDeviceGetName, handle)),
        utilisation_source,
        tuple(capabilities),
        "" if parent is None else text(ask(N.nvmlDeviceGetUUID, parent)),
        card_state(handle, parent),
        card_health(handle, parent),
    )


def _utilisation(handle: Any, parent: Any) -> tuple[UtilisationSource, Capability]:
    """The best utilisation source, and whether it gives SM utilisation."""
    name = "sm_utilisation"
    gpm = gpm_of(handle, parent)
    if isinstance(gpm, Absent):
        return busy_source(handle), Capability(name, False, gpm.reason)
    gpm.close()
    return "gpm", Capability(name, True, "hardware counters (GPM)")


def _busy(handle: Any) -> Capability:
    rates = ask(N.nvmlDeviceGetUtilizationRates, handle)
    if isinstance(rates, Absent):
        return Capability("gpu_busy", False, rates.reason)
    return Capability("gpu_busy", True, "share of time with at least one kernel; not SM utilisation")


if __name__ == "__main__":
    sys.stdout.write(json.dumps(ask_all().to_body()) + "\n")
