"""What can be measured on this machine: each capability is present, or absent with a reason."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from common.text import plural

#: The source of SM utilisation or GPU busy time, best first. `gpm`: hardware counters, the
#: true SM utilisation; `dcgm`: the same through a DCGM host engine, in recordings up to 0.1.0. `samples` and
#: `polling`: the share of time in which at least one kernel ran, from the driver's buffer or polled. Numbers
#: of two sources are never joined in one line.
UtilisationSource = Literal["gpm", "dcgm", "samples", "polling", "none"]

_FREQUENCY = "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"


@dataclass(frozen=True, slots=True)
class Capability:
    """One quantity. `detail` says how it is read, or why it cannot be."""

    name: str
    present: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class GpuCapabilities:
    """One GPU (or MIG device) as NVML knows it. `uuid` is what PyTorch's devices are matched by.

    `state` is what of the card changes its numbers, `health` what of it wears or breaks (see
    `gpu.card_state`); both are empty in runs of 0.1.0.
    """

    index: int
    uuid: str
    name: str
    utilisation_source: UtilisationSource
    capabilities: tuple[Capability, ...]
    mig_of: str = ""
    state: Mapping[str, Any] = field(default_factory=dict[str, Any])
    health: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def warnings(self) -> tuple[str, ...]:
        """What of its health and state may falsify or end measurements, as sentences without a full stop."""
        health, found = self.health, list[str]()
        if self.state.get("confidential_computing") == "on":
            found.append("confidential computing is on: the events that time its steps may be out of order")
        if errors := health.get("uncorrected_ecc_errors"):
            count = plural(errors, "memory error")
            found.append(f"{count} could not be corrected by ECC since the driver was loaded")
        if health.get("row_remap_failed"):
            found.append("a faulty row of its memory could not be remapped: the card needs service")
        elif health.get("row_remap_pending"):
            found.append("a faulty row of its memory is remapped at the next reset of the GPU")
        width, possible = health.get("pcie_width"), health.get("pcie_width_possible")
        if width and possible and width < possible:
            found.append(f"its PCIe link has {width} of {possible} lanes")
        return tuple(f"GPU {self.index} ({self.name}): {each}" for each in found)


@dataclass(frozen=True, slots=True)
class Probe:
    """What NVML answered on this machine. `absent` says why there is nothing, and is empty otherwise."""

    driver: str = ""
    cuda: str = ""
    gpus: tuple[GpuCapabilities, ...] = ()
    absent: str = ""

    def to_body(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)

    @staticmethod
    def from_body(body: Mapping[str, Any]) -> "Probe":
        """The inverse of `to_body`; raises TypeError or KeyError for anything else."""
        gpus = [_gpu(gpu) for gpu in cast("list[Mapping[str, Any]]", body["gpus"])]
        return Probe(body["driver"], body["cuda"], tuple(gpus), body["absent"])


def _gpu(body: Mapping[str, Any]) -> GpuCapabilities:
    values: dict[str, Any] = dict(body)
    if "rung" in values:  # in runs of 0.1.0
        values["utilisation_source"] = values.pop("rung")
    values["capabilities"] = tuple(Capability(**each) for each in body["capabilities"])
    return GpuCapabilities(**values)


def host_capabilities(root: Path = Path("/")) -> tuple[Capability, ...]:
    """What can be measured of the host, in the order of the GPU's; `root` contains /proc and /sys."""
    return (
        _readable("core_busy", root / "proc/stat", "busy time of each CPU, in ticks of 10 ms"),
        _steal(root / "proc/stat"),
        _readable("run_queue", root / "proc/loadavg", "runnable tasks at the moment"),
        _readable("pressure", root / "proc/pressure/cpu", "time that tasks waited for a CPU"),
        _readable("frequency", root / _FREQUENCY, "of each CPU, at the moment"),
        _readable("tree_memory", root / "proc/self/smaps_rollup", "proportional set size of each process"),
        _readable("switches", root / "proc/self/status", "context switches of each thread"),
        _readable("migrations", root / "proc/self/sched", "moves of each thread between CPUs"),
        _readable("pages_local", root / "proc/self/numa_maps", "resident pages by NUMA node"),
    )


def _readable(name: str, path: Path, how: str) -> Capability:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return Capability(name, False, f"this kernel has no {_absolute(path)}")
    except OSError as error:
        return Capability(name, False, f"{_absolute(path)}: {(error.strerror or str(error)).lower()}")
    return Capability(name, bool(content), how if content else f"{_absolute(path)} is empty")


def _steal(path: Path) -> Capability:
    """Time the hypervisor gave to other guests: the 8th number of the first line of /proc/stat (proc(5))."""
    try:
        numbers = path.read_text().split("\n", 1)[0].split()[1:]
    except OSError as error:
        return Capability("steal", False, f"{_absolute(path)}: {(error.strerror or str(error)).lower()}")
    if len(numbers) < 8:
        return Capability("steal", False, "this kernel does not count it")
    return Capability("steal", True, "as reported by the hypervisor; some always report 0")


def _absolute(path: Path) -> str:
    parts = path.parts
    start = next((i for i, part in enumerate(parts) if part in ("proc", "sys")), 0)
    return "/" + "/".join(parts[start:])
