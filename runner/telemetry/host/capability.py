"""What the kernel tells about the CPUs and processes of this machine."""

from pathlib import Path

from ..capability import Capability

_FREQUENCY = "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"


def capabilities(root: Path = Path("/")) -> tuple[Capability, ...]:
    """The CPU side's capabilities, in the order of the GPU's; `root` is where /proc and /sys lie."""
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
        return Capability(name, False, f"this kernel has no {_shown(path)}")
    except OSError as error:
        return Capability(name, False, f"{_shown(path)}: {(error.strerror or str(error)).lower()}")
    return Capability(name, bool(content), how if content else f"{_shown(path)} is empty")


def _steal(path: Path) -> Capability:
    """Time a hypervisor gave to others: the 8th number of the first line of /proc/stat (proc(5))."""
    try:
        numbers = path.read_text().split("\n", 1)[0].split()[1:]
    except OSError as error:
        return Capability("steal", False, f"{_shown(path)}: {(error.strerror or str(error)).lower()}")
    if len(numbers) < 8:
        return Capability("steal", False, "this kernel does not count it")
    return Capability("steal", True, "as far as the hypervisor tells: a silent one always says 0")


def _shown(path: Path) -> str:
    parts = path.parts
    start = next((i for i, part in enumerate(parts) if part in ("proc", "sys")), 0)
    return "/" + "/".join(parts[start:])
