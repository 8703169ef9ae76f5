"""Which CPUs there are, and how they hang together: cores and NUMA nodes, by the kernel's CPU numbers.

A CPU's number is what affinity takes. A core's number is another thing: it repeats from package to package
and counts no hardware threads, so nothing here ever pins to one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from runner.preset import parse_cpus

_SYS = Path("/sys/devices/system")


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


def read(allowed: Iterable[int], root: Path = _SYS) -> Topology:
    """The topology of the `allowed` CPUs as the kernel reports it below `root`.

    A CPU without an entry is a core of its own on node 0.
    """
    cpus = tuple(sorted(allowed))
    siblings = {cpu: _siblings(cpu, root) for cpu in cpus}
    nodes = dict.fromkeys(cpus, 0)
    for folder in root.glob("node/node[0-9]*"):
        node = int(folder.name.removeprefix("node"))
        nodes |= {cpu: node for cpu in _listed(folder / "cpulist") if cpu in nodes}
    return Topology(cpus, siblings, nodes)


def _siblings(cpu: int, root: Path) -> frozenset[int]:
    return frozenset({cpu, *_listed(root / f"cpu/cpu{cpu}/topology/thread_siblings_list")})


def _listed(path: Path) -> tuple[int, ...]:
    try:
        return parse_cpus(path.read_text().strip())
    except (OSError, ValueError):
        # A node of memory alone has an empty list.
        return ()
