"""Topology: the kernel's CPU numbers, whatever cores and nodes are called."""

import os
from pathlib import Path

import pytest

from runner.execution.launch import Topology, read_topology


def machine(root: Path, cores: dict[int, str], nodes: dict[int, str]) -> Path:
    """A folder like /sys/devices/system: the siblings of each CPU and the CPUs of each node, as lists."""
    for cpu, siblings in cores.items():
        folder = root / f"cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{siblings}\n")
        # Core numbers begin anew on the second package and skip some on the first, as on real machines.
        (folder / "core_id").write_text(f"{(cpu % 2) * 8}\n")
    for node, cpus in nodes.items():
        (root / f"node/node{node}").mkdir(parents=True)
        (root / f"node/node{node}/cpulist").write_text(f"{cpus}\n")
    return root


@pytest.fixture
def two_packages(tmp_path: Path) -> Path:
    """Two packages of two cores of two threads; the second threads are numbered from 4; a node of memory."""
    cores = {cpu: f"{cpu % 4},{cpu % 4 + 4}" for cpu in range(8)}
    return machine(tmp_path, cores, {0: "0-1,4-5", 1: "2-3,6-7", 2: ""})


def test_one_thread_a_core_by_cpu_number(two_packages: Path) -> None:
    whole = read_topology(range(8), two_packages)
    assert whole.allowed == tuple(range(8))
    assert whole.one_per_core(whole.allowed) == (0, 1, 2, 3)
    assert whole.one_per_core((5, 6, 7)) == (5, 6, 7)
    assert whole.one_per_core((1, 5, 6)) == (1, 6)


def test_nodes_hold_the_allowed_cpus_only(two_packages: Path) -> None:
    part = read_topology((1, 2, 5, 7), two_packages)
    assert part.of_node(0) == (1, 5)
    assert part.of_node(1) == (2, 7)
    assert part.nodes_of((1, 7)) == (0, 1)
    assert part.one_per_core(part.allowed) == (1, 2, 7)


def test_a_kernel_without_topology_has_cores_of_their_own_on_one_node(tmp_path: Path) -> None:
    assert read_topology((3, 1), tmp_path) == Topology(
        (1, 3), {1: frozenset({1}), 3: frozenset({3})}, {1: 0, 3: 0}
    )


def test_this_machine_is_read() -> None:
    topology = read_topology(os.sched_getaffinity(0))
    assert set(topology.allowed) == os.sched_getaffinity(0)
    assert {cpu for node in topology.nodes_of(topology.allowed) for cpu in topology.of_node(node)} == set(
        topology.allowed
    )
    assert 1 <= len(topology.one_per_core(topology.allowed)) <= len(topology.allowed)
