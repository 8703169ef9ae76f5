"""Facts about this machine, and what it cannot measure."""

import hashlib
import os
import platform
import re
import shutil
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from records.fingerprints import fingerprint_of

from .telemetry.capability import Probe
from .telemetry.sample_log import bare

_CPU = Path("/sys/devices/system/cpu")
_NODE = Path("/sys/devices/system/node")
#: A GPU's memory counts in steps of 4 GiB, for what CUDA has of it varies by some MiB with the driver. So
#: much above a step is not above it: an H200 reports 139.7 to 140.1 GiB.
_GPU_MEMORY_STEP_MIB, _GPU_MEMORY_SLACK_MIB = 4096, 200
#: Names of arm64 CPUs, which report numbers, by implementer and part; as lscpu has them.
_ARM_CORES = {
    ("0x41", "0xd08"): "Cortex-A72",
    ("0x41", "0xd0c"): "Neoverse N1",
    ("0x41", "0xd40"): "Neoverse V1",
    ("0x41", "0xd49"): "Neoverse N2",
    ("0x41", "0xd4f"): "Neoverse V2",
    ("0x41", "0xd84"): "Neoverse V3",
    ("0x41", "0xd8e"): "Neoverse N3",
    ("0x6d", "0xd49"): "Azure Cobalt 100",
    ("0xc0", "0xac3"): "Ampere-1",
    ("0xc0", "0xac4"): "Ampere-1a",
}


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """This host: identity, the hardware that makes it comparable, and what may change between runs."""

    name: str
    fingerprint: str
    hardware_label: str
    hardware_fingerprint: str
    hardware: Mapping[str, Any]
    conditions: Mapping[str, Any]


def describe(
    gpus: list[Mapping[str, Any]], cpus: int | None = None, cards: Mapping[str, Any] | None = None
) -> MachineFacts:
    """This machine's facts. `gpus` are the devices the measured environment sees.

    `cards` are their states by number (see `card_states`), where they are known: one that changes ends the
    series' segment as any condition does.

    `cpus` is how many may be measured on, for a process that keeps to fewer itself; None: as many as it has.

    Hardware is the CPU model, the CPUs this process may use, and the GPUs with their memory, rounded up to a
    multiple of 4 GiB: machines that agree in them are compared. Kernel, microcode, governor, the exact memory
    of the GPUs and the like are conditions: recorded, and allowed to change.
    """
    cpu = _cpu_info()
    hardware: dict[str, Any] = {
        "cpu": cpu["model"],
        "architecture": platform.machine(),
        "cpus": len(os.sched_getaffinity(0)) if cpus is None else cpus,
        # In their order: of several kinds the first one is what a case on one GPU is measured on.
        "gpus": [str(gpu["name"]) for gpu in gpus],
        "gpu_memory_mib": [_rounded_up(int(gpu["memory_mib"])) for gpu in gpus],
    }
    name = socket.gethostname()
    conditions = {
        "kernel": platform.release(),
        "os": _os_name(),
        "microcode": cpu["microcode"],
        "flags": hashlib.sha256(cpu["flags"].encode()).hexdigest()[:12],
        "memory_mib": psutil.virtual_memory().total // 2**20,
        **({"gpu_memory_mib": [int(gpu["memory_mib"]) for gpu in gpus]} if gpus else {}),
        **({"gpus": dict(cards)} if cards else {}),
        "numa_nodes": len(list(_NODE.glob("node[0-9]*"))) or 1,
        "smt": _read_text(_CPU / "smt/active"),
        "governor": _read_text(_CPU / "cpu0/cpufreq/scaling_governor"),
        "turbo_off": _read_text(_CPU / "intel_pstate/no_turbo"),
        "transparent_hugepages": _read_text(Path("/sys/kernel/mm/transparent_hugepage/enabled")),
        "aslr": _read_text(Path("/proc/sys/kernel/randomize_va_space")),
        "driver": _driver(),
        "load": os.getloadavg()[0],
    }
    return MachineFacts(
        name=name,
        fingerprint=fingerprint_of({"id": _read_text(Path("/etc/machine-id")), "name": name}),
        hardware_label=_label(hardware),
        hardware_fingerprint=fingerprint_of(hardware),
        hardware=hardware,
        conditions=conditions,
    )


def card_states(gpus: list[Mapping[str, Any]], probe: Probe) -> dict[str, Any]:
    """What NVML knows of each of `gpus`, by its number: UUID, and all of `GpuCapabilities.state`."""
    cards = {bare(gpu.uuid): gpu for gpu in probe.gpus}
    found: dict[str, Any] = {}
    for number, gpu in enumerate(gpus):
        card = cards.get(bare(str(gpu.get("uuid") or "")))
        if card is not None:
            found[str(number)] = {"uuid": card.uuid, **card.state}
    return found


def card_warnings(gpus: list[Mapping[str, Any]], probe: Probe) -> tuple[str, ...]:
    """What NVML says of the health of `gpus` that may falsify or end measurements, each as a sentence."""
    used = {bare(str(gpu.get("uuid") or "")) for gpu in gpus}
    return tuple(each for gpu in probe.gpus if bare(gpu.uuid) in used for each in gpu.warnings)


def combine(leader: MachineFacts, others: Sequence[MachineFacts]) -> MachineFacts:
    """The facts of several machines that measure together; the controller runs on `leader`.

    The hardware is that of all machines, so that their numbers never join a series of one machine. The
    leader and the order are part of it: cases that need fewer machines use the first ones.
    """
    if not others:
        return leader
    every = (leader, *others)
    kinds = Counter(one.hardware_label for one in every)
    hardware: dict[str, Any] = {
        "machines": len(every),
        "cpu": " + ".join(dict.fromkeys(str(one.hardware["cpu"]) for one in every)),
        "architecture": " + ".join(dict.fromkeys(str(one.hardware["architecture"]) for one in every)),
        "cpus": sum(int(one.hardware["cpus"]) for one in every),
        "gpus": sorted(gpu for one in every for gpu in one.hardware["gpus"]),
        "gpu_memory_mib": sorted(mib for one in every for mib in one.hardware["gpu_memory_mib"]),
    }
    return replace(
        leader,
        hardware_label=" + ".join(f"{count} x ({label})" for label, count in kinds.items()),
        hardware_fingerprint=fingerprint_of({"machines": [one.hardware_fingerprint for one in every]}),
        hardware=hardware,
    )


def limits(gpus: list[Mapping[str, Any]]) -> tuple[str, ...]:
    """What this machine cannot measure: one sentence each, with the reason."""
    found: list[str] = []
    if not gpus:
        found.append(
            "no CUDA device is visible to the measured PyTorch: peak allocated and reserved are not measured"
        )
    if shutil.which("numactl") is None:
        found.append("numactl is not installed: memory cannot be bound to a NUMA node")
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        found.append(
            "no C++ compiler is installed: torch.compile cannot build CPU kernels, compiled cases will fail"
        )
    if not (_CPU / "cpu0/cpufreq").exists():
        found.append(
            "the CPU's frequency and governor are not readable: a change of clock will look like noise"
        )
    cpus, quota = len(os.sched_getaffinity(0)), cpu_quota()
    if quota is not None and quota < cpus:
        found.append(
            f"a control group leaves this process the time of {quota:g} of {cpus} CPUs: with more threads "
            "the kernel stops it in the middle of steps"
        )
    if cpus < 2:
        found.append("only one CPU is available: the controller shares it with what it measures")
    return tuple(found)


def cpu_quota(root: Path = Path("/")) -> float | None:
    """Of how many CPUs the control groups of this process leave it the time; None without such a limit.

    Read below `root` from version 2 (`cpu.max`) and version 1 (`cpu.cfs_quota_us`) of control groups. The
    limit of a group that contains others is theirs too.
    """
    return min((quota for folder in _cpu_groups(root) for quota in _quota(folder)), default=None)


def times_stopped(root: Path = Path("/")) -> int:
    """How often the kernel has stopped the control groups of this process because their time was used up."""
    texts = (_read_text(folder / "cpu.stat") or "" for folder in _cpu_groups(root))
    return sum(int(number) for text in texts for number in re.findall(r"^nr_throttled (\d+)", text, re.M))


def _cpu_groups(root: Path) -> list[Path]:
    """The folders of the control groups that divide the CPUs' time and contain this process."""
    groups = root / "sys/fs/cgroup"
    found: list[Path] = []
    for line in (_read_text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = groups / "cpu" if controllers else groups
        own = top / path.lstrip("/")
        found += (own, *(each for each in own.parents if each == top or top in each.parents))
    return found


def _quota(folder: Path) -> list[float]:
    """The CPUs whose time one control group has, as one number; none where it is not limited."""
    text = _read_text(folder / "cpu.max")
    if text is None:
        text = f"{_read_text(folder / 'cpu.cfs_quota_us')} {_read_text(folder / 'cpu.cfs_period_us')}"
    numbers = [int(part) for part in text.split() if part.isdecimal()]
    return [numbers[0] / numbers[1]] if len(numbers) == 2 and numbers[1] else []


def last_level_cache_mib() -> float | None:
    """The largest cache of the first CPU in MiB, as the kernel reports it; a guest may see its host's."""
    sizes = [_read_text(path) or "" for path in (_CPU / "cpu0/cache").glob("index*/size")]
    mib = [int(size[:-1]) / 1024 for size in sizes if size.endswith("K") and size[:-1].isdecimal()]
    return max(mib, default=None)


def _rounded_up(memory_mib: int) -> int:
    steps = -((_GPU_MEMORY_SLACK_MIB - memory_mib) // _GPU_MEMORY_STEP_MIB)
    return max(1, steps) * _GPU_MEMORY_STEP_MIB


def _label(hardware: Mapping[str, Any]) -> str:
    gpus: list[str] = hardware["gpus"]
    if gpus:
        kinds = sorted(set(gpus))
        return " + ".join(f"{gpus.count(kind)} x {kind}" for kind in kinds)
    model = " + ".join(_core_name(core) for core in str(hardware["cpu"]).split(" + "))
    model = model.replace("(R)", "").replace("(TM)", "").replace(" CPU", "")
    return f"{' '.join(model.split())}, {hardware['cpus']} cores"


def _cpu_info() -> dict[str, str]:
    names = {"model name": "model", "microcode": "microcode", "flags": "flags", "Features": "flags"}
    found = {"model": platform.processor() or platform.machine(), "microcode": "", "flags": ""}
    text = _read_text(Path("/proc/cpuinfo")) or ""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in names:
            found[names[name.strip()]] = value.strip()
        if not line and found["flags"]:
            break
    if cores := _arm_cores(text):
        found["model"] = " + ".join(cores)
    return found


def _arm_cores(text: str) -> list[str]:
    """The kinds of cores in arm64's /proc/cpuinfo, by number: it contains no model name."""
    found: list[str] = []
    for block in text.split("\n\n"):
        pairs = (line.partition(":") for line in block.splitlines())
        fields = {name.strip(): value.strip() for name, _, value in pairs}
        if {"CPU implementer", "CPU part"} <= fields.keys():
            numbers = (
                fields.get(f"CPU {word}", "") for word in ("implementer", "part", "variant", "revision")
            )
            found.append("ARM {} part {} variant {} revision {}".format(*numbers))
    return list(dict.fromkeys(found))


def _core_name(core: str) -> str:
    """The name of a core where its numbers are known; others unchanged."""
    numbers = re.fullmatch(r"ARM (\S+) part (\S+) variant (?:0x)?(\w*) revision (\w*)", core)
    if numbers is None:
        return core
    implementer, part, variant, revision = numbers.groups()
    name = _ARM_CORES.get((implementer, part), f"ARM {implementer} part {part}")
    return f"{name} r{variant}p{revision}" if variant and revision else name


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return platform.platform()


def _driver() -> str | None:
    text = _read_text(Path("/proc/driver/nvidia/version"))
    return text.splitlines()[0] if text else None


def _read_text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None
