"""How a worker is started: which CPUs there are, and the axes that take effect before torch is imported.

A CPU's number is what affinity takes. A core's number is another thing: it repeats from package to package
and counts no hardware threads, so nothing here ever pins to one. `cpus`, `threads`, `omp`, `allocator` and
`device_allocator` are decided when the process begins: OpenMP and the allocators read their variables once,
and torch counts its CPUs when it is imported.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from common.processes import join_numbers
from runner.preset import (
    QUIET_MALLOC,
    SYSTEM,
    MachinePreset,
    listed_cpus,
    parse_cpus,
    siblings,
    with_huge_pages,
)
from runner.worker.case_key import CaseKey
from runner.worker.variables import ALLOCATOR_VARIABLE

#: Libraries by what can be asked for, the best first, and the Debian package that has one.
_LIBRARIES = {
    "tcmalloc": (("libtcmalloc_minimal.so.4", "libtcmalloc.so.4"), "libtcmalloc-minimal4"),
    "jemalloc": (("libjemalloc.so.2",), "libjemalloc2"),
}
_FOLDERS = ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64", "/lib", "/lib64")
_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
#: glibc.malloc.hugetlb exists from this version on.
_HUGETLB_SINCE = (2, 35)
_MALLOC_TUNABLES = "glibc.malloc."


class CannotLaunch(Exception):
    """This machine cannot start a worker like that; the text says why, and what would help."""


def allocator_variables(allocator: str, variables: Mapping[str, str]) -> dict[str, str]:
    """`variables` with what they say about malloc replaced by `allocator`; raises CannotLaunch.

    `allocator` is a value of the axis, `preset` excepted.
    """
    plain = _without_malloc(variables)
    if allocator == "quiet":
        return with_huge_pages(plain | QUIET_MALLOC)
    if allocator == "hugetlb":
        if problem := no_huge_pages():
            raise CannotLaunch(problem)
        return with_huge_pages(plain)
    if allocator in _LIBRARIES:
        preloads = (malloc_library(allocator), plain.get("LD_PRELOAD"))
        return plain | {"LD_PRELOAD": ":".join(filter(None, preloads))}
    return plain


@cache
def malloc_library(allocator: str) -> str:
    """The path of tcmalloc's or jemalloc's library; raises CannotLaunch where there is none."""
    names, package = _LIBRARIES[allocator]
    for name in names:
        if path := _in_cache(name) or _in_folders(name):
            return path
    raise CannotLaunch(f"lib{allocator} is not installed; Debian: apt-get install {package}")


def no_huge_pages(setting: Path = _HUGE_PAGES, libc: str | None = None) -> str:
    """Why glibc's malloc cannot take huge pages here; empty when it can. `libc`: "glibc 2.36"."""
    name, _, version = (libc or os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    if name != "glibc" or tuple(map(int, version.split(".")[:2])) < _HUGETLB_SINCE:
        return (
            f"glibc.malloc.hugetlb needs glibc 2.35 or newer, here is {name or 'another C library'} {version}"
        )
    try:
        mode = setting.read_text().partition("[")[2].partition("]")[0]
    except OSError:
        mode = ""
    if mode not in ("always", "madvise"):
        return f"transparent huge pages are {mode or 'not offered by this kernel'} in {setting}"
    return ""


def _without_malloc(variables: Mapping[str, str]) -> dict[str, str]:
    rest = {name: value for name, value in variables.items() if not name.startswith("MALLOC_")}
    tunables = (t for t in rest.pop("GLIBC_TUNABLES", "").split(":") if not t.startswith(_MALLOC_TUNABLES))
    preloads = rest.pop("LD_PRELOAD", "").replace(":", " ").split()
    others = (p for p in preloads if not any(f"lib{name}" in p for name in _LIBRARIES))
    cleaned = {"GLIBC_TUNABLES": ":".join(filter(None, tunables)), "LD_PRELOAD": ":".join(others)}
    return rest | {name: value for name, value in cleaned.items() if value}


def _in_cache(name: str) -> str:
    # Not on the PATH of every user.
    ldconfig = shutil.which("ldconfig", path=f"{os.environ.get('PATH', '')}:/sbin:/usr/sbin")
    if ldconfig is None:
        return ""
    listed = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=False).stdout
    for line in listed.splitlines():
        # "libx.so.1 (libc6,x86-64) => /path"; the 32-bit one of the same name stands there as (libc6).
        found, _, path = line.strip().partition(" => ")
        if found.startswith(f"{name} (") and "64" in found.removeprefix(name) and path:
            return path
    return ""


def _in_folders(name: str) -> str:
    for folder in _FOLDERS:
        for path in (Path(folder) / name, *Path(folder).glob(f"*-linux-gnu*/{name}")):
            if path.exists():
                return str(path)
    return ""


@dataclass(frozen=True, slots=True)
class Topology:
    """The allowed CPUs. `siblings` maps each to the threads of its core, `nodes` to its NUMA node."""

    allowed: tuple[int, ...]
    siblings: Mapping[int, frozenset[int]]
    nodes: Mapping[int, int]

    def one_per_core(self, cpus: Iterable[int]) -> tuple[int, ...]:
        """Of each core among `cpus` the first thread."""
        chosen: dict[frozenset[int], int] = {}
        for cpu in sorted(cpus):
            chosen.setdefault(self.siblings[cpu], cpu)
        return tuple(sorted(chosen.values()))

    def of_node(self, node: int) -> tuple[int, ...]:
        """The allowed CPUs of one NUMA node."""
        return tuple(cpu for cpu in self.allowed if self.nodes[cpu] == node)

    def nodes_of(self, cpus: Iterable[int]) -> tuple[int, ...]:
        """The NUMA nodes of `cpus`."""
        return tuple(sorted({self.nodes[cpu] for cpu in cpus}))


def read_topology(allowed: Iterable[int], root: Path = SYSTEM) -> Topology:
    """The topology of the `allowed` CPUs as the kernel reports it below `root`.

    A CPU without an entry is a core of its own on node 0.
    """
    cpus = tuple(sorted(allowed))
    cores = {cpu: siblings(cpu, root) for cpu in cpus}
    nodes = dict.fromkeys(cpus, 0)
    for folder in root.glob("node/node[0-9]*"):
        node = int(folder.name.removeprefix("node"))
        nodes |= {cpu: node for cpu in listed_cpus(folder / "cpulist") if cpu in nodes}
    return Topology(cpus, cores, nodes)


#: Waiting threads of `omp=spin` go on for 10 to 50 ms: longer than any gap within a step, and bounded, so
#: that a contender that waits for its turn does not take another's CPU for long. libgomp counts rounds
#: (measured: 8 ns each on a virtual machine; more where `pause` takes 140 cycles), libiomp milliseconds.
_OMP = {
    "passive": {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"},
    "spin": {"OMP_WAIT_POLICY": "active", "GOMP_SPINCOUNT": "1000000", "KMP_BLOCKTIME": "50"},
    "close": {"OMP_PROC_BIND": "close", "OMP_PLACES": "cores"},
    "spread": {"OMP_PROC_BIND": "spread", "OMP_PLACES": "cores"},
}
#: Settings of PyTorch's allocator for CUDA. Source: the PyTorch documentation, CUDA semantics, "Optimizing
#: memory usage with PYTORCH_CUDA_ALLOC_CONF".
_DEVICE_ALLOCATORS = {
    "expandable": {ALLOCATOR_VARIABLE: "expandable_segments:True"},
    "async": {ALLOCATOR_VARIABLE: "backend:cudaMallocAsync"},
}
#: Asked for NUMA nodes: the path of a numactl that can bind memory to them, and why there is none.
FindNumactl = Callable[[tuple[int, ...]], tuple[str, str]]

_NUMACTL_SECONDS = 5.0
#: How long after its turn a contender under `omp=spin` may keep CPUs busy.
SPIN_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Start:
    """How to start one worker: its variables, its CPUs (none: not pinned), the command before its own.

    `facts` say it in the outcome.
    """

    variables: Mapping[str, str]
    cpus: tuple[int, ...]
    prefix: tuple[str, ...]
    facts: Mapping[str, Any]


def allowed_cpus(preset: MachinePreset) -> tuple[int, ...]:
    """The CPUs that a run under `preset` has, its own included.

    While it measures, the controller keeps to the housekeeping CPUs: its own affinity is not the answer.
    """
    return tuple(sorted({*preset.cpus, *preset.housekeeping} or os.sched_getaffinity(0)))


def start_of(
    key: CaseKey,
    preset: MachinePreset,
    machine: Topology,
    find_numactl: FindNumactl,
    gpu_node: int | None = None,
) -> Start:
    """How a worker for `key` is started under `preset` on `machine`; raises CannotLaunch.

    `gpu_node` is the NUMA node of the GPU that is measured: axis `cpus=node` then means that one. Where
    numactl cannot bind memory (see `usable_numactl`), CPUs are pinned by affinity alone.
    """
    cpus = _cpus(key.axis("cpus"), preset, machine, gpu_node)
    facts: dict[str, Any] = {"pinned_by": "preset", "cpus": list(cpus)}
    prefix: tuple[str, ...] = ()
    if key.axis("cpus") != "preset":
        if both := sorted({*cpus} & {*preset.housekeeping}):
            facts["shared_with_controller"] = both
        nodes = machine.nodes_of(cpus)
        numactl, problem = find_numactl(nodes)
        if numactl:
            prefix = (
                numactl,
                f"--physcpubind={join_numbers(cpus)}",
                f"--membind={join_numbers(nodes)}",
                "--",
            )
            facts |= {"pinned_by": "numactl", "memory_nodes": list(nodes)}
        else:
            facts |= {"pinned_by": "affinity", "numactl": problem}
    allocator, variables = key.axis("allocator"), dict(preset.variables)
    if allocator != "preset":
        variables = allocator_variables(allocator, variables)
    variables |= _OMP.get(key.axis("omp"), {}) | _DEVICE_ALLOCATORS.get(key.axis("device_allocator"), {})
    threads = _threads(key, cpus, machine)
    if threads:
        variables |= {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        facts["threads"] = threads
    changed = {k: v for k, v in variables.items() if preset.variables.get(k) != v}
    unset = sorted(preset.variables.keys() - variables.keys())
    facts |= {"variables": changed} if changed else {}
    facts |= {"without": unset} if unset else {}
    return Start(variables, cpus, prefix, facts)


def affinity_held(launch: Mapping[str, Any], worker: Mapping[str, Any]) -> dict[str, bool]:
    """Whether a pinned worker was seen on its CPUs only, as a fact; nothing where it was not pinned or seen.

    `launch` are the facts of `start_of`, `worker` those that it reported.
    """
    cpus, affinity = launch.get("cpus"), worker.get("affinity")
    if not cpus or not affinity:
        return {}
    allowed = {cpu for text in affinity["allowed"] for cpu in parse_cpus(text)}
    return {"held": {*affinity["seen"]} <= {*cpus} and allowed <= {*cpus}}


@cache
def usable_numactl(nodes: tuple[int, ...]) -> tuple[str, str]:
    """The path of a numactl that can bind memory to `nodes`, or an empty one and why not.

    Tried once: a container may forbid set_mempolicy(2), or keep the memory of a node to others.
    """
    path = shutil.which("numactl")
    if path is None:
        return "", "not installed"
    try:
        tried = subprocess.run(
            [path, f"--membind={join_numbers(nodes)}", "--", path, "--show"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_NUMACTL_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return "", "does not answer"
    except OSError as error:
        return "", f"cannot be started: {error.strerror or error}"
    if tried.returncode:
        return "", f"refused: {(tried.stderr.strip().splitlines() or ['without a word'])[0]}"
    return path, ""


def _cpus(value: str, preset: MachinePreset, machine: Topology, gpu_node: int | None) -> tuple[int, ...]:
    pinned = preset.cpus or machine.allowed
    if value == "preset":
        return preset.cpus
    if value == "1":
        return pinned[:1]
    if value == "node":
        # Transfers and launches from another socket's CPUs are slower.
        nearest = () if gpu_node is None else machine.of_node(gpu_node)
        return nearest or machine.of_node(machine.nodes[pinned[0]])
    if value == "physical":
        return machine.one_per_core(machine.allowed)
    return machine.allowed


def _threads(key: CaseKey, cpus: tuple[int, ...], machine: Topology) -> int | None:
    """OMP_NUM_THREADS: as the key says, or a thread a core of the chosen CPUs, divided among all processes.

    None leaves it to the preset.
    """
    if key.axis("threads") != "preset":
        return key.count("threads")
    if key.axis("cpus") == "preset":
        return None
    # More nodes than ranks are refused later, by the worker.
    processes = max(1, key.count("instances") * key.count("ranks") // key.count("nodes"))
    return max(1, len(machine.one_per_core(cpus)) // processes)
