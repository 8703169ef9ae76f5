"""Measurement presets: the conditions a worker starts under, which are part of what is measured.

`quiet` keeps memory that glibc would otherwise return and fault in again at each step, asks for huge pages,
lets idle OpenMP threads sleep, and leaves one core to the controller. On a small CPU machine that takes the
noise between processes from 6-13 % to 1 % (docs/decisions/0004-quiet-profile.md). `as-it-comes` changes
nothing.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from records.fingerprints import compared_settings, fingerprint_of

from .worker.variables import relevant_variables

#: What the kernel says of CPUs and memory.
SYSTEM = Path("/sys/devices/system")
#: What the built-in preset `quiet` sets for the worker's malloc.
QUIET_MALLOC = {
    # glibc: keep freed memory instead of unmapping it; bytes.
    "MALLOC_TRIM_THRESHOLD_": str(4 << 30),
    # Larger blocks keep mappings of their own: in the heap, a freed one often leaves a hole that the next
    # aligned one does not fit, and memory grows several times over (20 x 500 MiB freed in turn: 3.2 GiB).
    # The gradient of BERT's embedding, 89 MiB, is below it: mapped anew by chance, it was 16 % of a step.
    "MALLOC_MMAP_THRESHOLD_": str(128 << 20),
    "MALLOC_TOP_PAD_": str(256 << 20),
}
#: Set to 1, glibc's malloc asks the kernel for transparent huge pages.
_HUGETLB_TUNABLE = "glibc.malloc.hugetlb"
#: They reach the worker and are no part of what is compared: which of several devices is used (the hardware
#: says how many, and of which kind), and what NVIDIA's images say of themselves (the environment says what
#: PyTorch has of it).
NOT_COMPARED = frozenset({"CUDA_VERSION", "CUDA_VISIBLE_DEVICES", "CUDNN_VERSION", "NCCL_VERSION"})
_QUIET_VARIABLES = {
    **QUIET_MALLOC,
    # libgomp and libiomp: threads that wait for work within a step spin for half a millisecond or one, and
    # then sleep instead of keeping a core that another contender needs. Sleeping at once, two threads of a
    # ResNet-50 would be worth hardly more than one.
    "GOMP_SPINCOUNT": "10000",
    "KMP_BLOCKTIME": "1",
}


@dataclass(frozen=True, slots=True)
class MachinePreset:
    """One preset as it applies to this machine.

    `cpus`: the worker's CPUs, empty for no pinning. `housekeeping`: the controller's, the supervisor's and
    the samplers' CPUs, empty where none could be set apart. `notes`: what could not be done, and why.
    """

    name: str
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    cpus: tuple[int, ...] = ()
    housekeeping: tuple[int, ...] = ()
    threads: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def compared_variables(self) -> dict[str, str]:
        """The variables that change what is measured, sorted by name; the worker gets all of them."""
        return {name: self.variables[name] for name in sorted(self.variables.keys() - NOT_COMPARED)}

    @property
    def settings(self) -> dict[str, object]:
        """What is stored with every number. CPUs count by how many, not which: cores are taken as alike."""
        return {
            "name": self.name,
            "variables": self.compared_variables,
            "pinned_cpus": len(self.cpus),
            "housekeeping_cpus": len(self.housekeeping),
            "threads": self.threads,
        }

    @property
    def fingerprint(self) -> str:
        """Identity of the settings: equal settings are comparable, whatever they are called."""
        return fingerprint_of(compared_settings(self.settings))


def make(
    name: str,
    base: str,
    *,
    variables: Mapping[str, str] | None = None,
    cpus: tuple[int, ...] | None = None,
    threads: int | None = None,
) -> MachinePreset:
    """A preset for this machine: the shell's relevant variables, the base on top, then the user's changes.

    What the shell sets is part of the preset, so that its numbers are no part of another series.
    """
    own = dict(variables or {})
    shell = relevant_variables(os.environ)
    if threads is not None:
        own.setdefault("OMP_NUM_THREADS", str(threads))
    allowed = sorted(os.sched_getaffinity(0))
    if base == "as-it-comes":
        outside = tuple(c for c in allowed if cpus and c not in cpus)
        return MachinePreset(name, {**shell, **own}, cpus or (), outside, threads)
    kept = with_huge_pages({**shell, **_QUIET_VARIABLES, **own})
    if cpus:
        return MachinePreset(name, kept, cpus, tuple(c for c in allowed if c not in cpus), threads)
    spare = siblings(allowed[0]) & set(allowed)
    rest = tuple(cpu for cpu in allowed if cpu not in spare)
    if not rest:
        note = "only one core is available: none can be left free for housekeeping, expect more noise"
        return MachinePreset(name, kept, (), (), threads, (note,))
    return MachinePreset(name, kept, rest, tuple(sorted(spare)), threads)


def with_huge_pages(variables: Mapping[str, str]) -> dict[str, str]:
    """`variables` with glibc's malloc asking for huge pages, unless they already say whether it does.

    With pages of 4 KiB the speed of a process depends on which physical pages it gets: the one that started
    first was 1 % slower, and processes of one case differed by 1 to 2 %. A kernel without huge pages and a
    glibc before 2.35 ignore the setting.
    """
    tunables = variables.get("GLIBC_TUNABLES", "")
    if any(one.startswith(f"{_HUGETLB_TUNABLE}=") for one in tunables.split(":")):
        return dict(variables)
    return {**variables, "GLIBC_TUNABLES": ":".join(filter(None, (tunables, f"{_HUGETLB_TUNABLE}=1")))}


def parse_cpus(text: str) -> tuple[int, ...]:
    """CPU numbers of a list such as `0-3,8`; raises ValueError for anything else."""
    cpus: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
            raise ValueError(f"{part.strip()!r} is not a CPU number or a range like 0-3")
        cpus.update(range(int(first), int(last) + 1))
    return tuple(sorted(cpus))


def listed_cpus(file: Path) -> tuple[int, ...]:
    """The CPU numbers in a file of the kernel; none where it has none, or cannot be read."""
    try:
        return parse_cpus(file.read_text().strip())
    except (OSError, ValueError):
        return ()


def siblings(cpu: int, root: Path = SYSTEM) -> frozenset[int]:
    """The hardware threads that share a core with `cpu`, itself included."""
    return frozenset({cpu, *listed_cpus(root / f"cpu/cpu{cpu}/topology/thread_siblings_list")})
