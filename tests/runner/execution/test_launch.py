"""How a worker is started, worked out for machines of all kinds."""

import os
from pathlib import Path

import pytest

from runner.execution.launch import (
    CannotLaunch,
    Topology,
    affinity_held,
    allowed_cpus,
    start_of,
    usable_numactl,
)
from runner.preset import MachinePreset
from runner.worker.case_key import CaseKey

#: Two nodes of two cores of two threads each.
MACHINE = Topology(
    tuple(range(8)),
    {cpu: frozenset({cpu % 4, cpu % 4 + 4}) for cpu in range(8)},
    {cpu: cpu % 4 // 2 for cpu in range(8)},
)
#: As the quiet preset would have it there: the first core is ours.
PRESET = MachinePreset("p", {"OMP_WAIT_POLICY": "passive"}, (1, 2, 3, 5, 6, 7), (0, 4))


def none(nodes: tuple[int, ...]) -> tuple[str, str]:
    """No numactl."""
    return "", "not installed"


def some(nodes: tuple[int, ...]) -> tuple[str, str]:
    """A numactl that works."""
    return "/usr/bin/numactl", ""


def case(technique: str) -> CaseKey:
    """A case under a technique."""
    return CaseKey.parse(f"x/infer/-/{technique}")


@pytest.mark.parametrize(
    ("technique", "cpus", "threads"),
    [
        ("eager", (1, 2, 3, 5, 6, 7), None),
        ("cpus=1", (1,), 1),
        ("cpus=node", (0, 1, 4, 5), 2),
        ("cpus=physical", (0, 1, 2, 3), 4),
        ("cpus=all", tuple(range(8)), 4),
        ("cpus=all,threads=8", tuple(range(8)), 8),
        ("threads=3", (1, 2, 3, 5, 6, 7), 3),
        ("cpus=all,instances=2", tuple(range(8)), 2),
        ("cpus=physical,parallel=ddp,ranks=8", (0, 1, 2, 3), 1),
        ("cpus=physical,nodes=2,parallel=ddp,ranks=4", (0, 1, 2, 3), 2),
        ("cpus=all,nodes=2,parallel=ddp", tuple(range(8)), 4),
    ],
)
def test_cpus_and_threads(technique: str, cpus: tuple[int, ...], threads: int | None) -> None:
    start = start_of(case(technique), PRESET, MACHINE, none)
    assert start.cpus == cpus and start.prefix == ()
    thread_counts = {start.variables.get("OMP_NUM_THREADS"), start.variables.get("MKL_NUM_THREADS")}
    assert thread_counts == {None if threads is None else str(threads)}
    assert start.facts.get("threads") == threads
    assert start.variables["OMP_WAIT_POLICY"] == "passive"


def test_the_pinning_tool_is_reported() -> None:
    assert start_of(case("eager"), PRESET, MACHINE, some).facts == {
        "pinned_by": "preset",
        "cpus": [1, 2, 3, 5, 6, 7],
    }
    bound = start_of(case("cpus=node"), PRESET, MACHINE, some)
    assert bound.prefix == ("/usr/bin/numactl", "--physcpubind=0,1,4,5", "--membind=0", "--")
    assert (bound.facts["pinned_by"], bound.facts["memory_nodes"]) == ("numactl", [0])
    assert bound.facts["shared_with_controller"] == [0, 4]
    plain = start_of(case("cpus=node"), PRESET, MACHINE, none)
    assert (plain.facts["pinned_by"], plain.facts["numactl"]) == ("affinity", "not installed")
    assert "memory_nodes" not in plain.facts
    assert "shared_with_controller" not in start_of(case("cpus=1"), PRESET, MACHINE, none).facts


def test_the_node_of_a_case_on_a_gpu_is_the_gpus() -> None:
    assert start_of(case("cpus=node"), PRESET, MACHINE, none, gpu_node=1).cpus == (2, 3, 6, 7)
    # A node whose CPUs are not for us is none.
    assert start_of(case("cpus=node"), PRESET, MACHINE, none, gpu_node=5).cpus == (0, 1, 4, 5)


def test_without_pinning_in_the_preset_one_core_is_the_first_allowed() -> None:
    free = MachinePreset("as-it-comes")
    assert start_of(case("cpus=1"), free, MACHINE, none).cpus == (0,)
    assert start_of(case("eager"), free, MACHINE, none).cpus == ()
    assert set(allowed_cpus(free)) == os.sched_getaffinity(0)
    assert allowed_cpus(PRESET) == tuple(range(8))


def test_openmp_goes_over_the_preset() -> None:
    spin = start_of(case("omp=spin"), PRESET, MACHINE, none)
    assert spin.variables["OMP_WAIT_POLICY"] == "active"
    assert spin.facts["variables"] == dict(spin.variables)
    close = start_of(case("omp=close"), PRESET, MACHINE, none).variables
    assert (close["OMP_PROC_BIND"], close["OMP_PLACES"]) == ("close", "cores")
    assert start_of(case("omp=spread"), PRESET, MACHINE, none).variables["OMP_PROC_BIND"] == "spread"


def test_the_allocator_is_recognised_by_what_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    preset = MachinePreset("p", {"MALLOC_TOP_PAD_": "1"})
    plain = start_of(case("allocator=as-it-comes"), preset, MACHINE, none)
    assert plain.variables == {} and plain.facts["without"] == ["MALLOC_TOP_PAD_"]
    monkeypatch.setattr("runner.execution.launch.malloc_library", lambda name: f"/lib/lib{name}.so.4")
    preloaded = start_of(case("allocator=tcmalloc"), preset, MACHINE, none)
    assert preloaded.facts["variables"] == {"LD_PRELOAD": "/lib/libtcmalloc.so.4"}
    monkeypatch.setattr("runner.execution.launch.no_huge_pages", lambda: "huge pages are off")
    with pytest.raises(CannotLaunch, match=r"^huge pages are off$"):
        start_of(case("allocator=hugetlb"), preset, MACHINE, none)


@pytest.mark.parametrize(
    ("allowed", "seen", "held"),
    [(["1"], [1], True), (["0-1"], [1], False), (["1", "2"], [1, 2], True), (["1"], [3], False)],
)
def test_affinity_is_held_when_no_thread_may_leave_or_left(
    allowed: list[str], seen: list[int], held: bool
) -> None:
    affinity = {"affinity": {"allowed": allowed, "seen": seen}}
    assert affinity_held({"cpus": [1, 2]}, affinity) == {"held": held}
    assert affinity_held({"cpus": []}, affinity) == affinity_held({"cpus": [1]}, {}) == {}


def test_a_numactl_that_may_not_bind_memory_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Past the cache, which serves the tests that really start workers.
    ask = usable_numactl.__wrapped__
    script = tmp_path / "numactl"
    script.write_text("#!/bin/sh\necho 'set_mempolicy: Operation not permitted' >&2\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert ask((0,)) == ("", "refused: set_mempolicy: Operation not permitted")
    script.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ask((0,)) == ("", "not installed")
