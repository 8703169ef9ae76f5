"""What the sampler says of CPUs and processes, held against processes that do a known amount of work."""

import os
import time
from pathlib import Path

import pytest

from records.telemetry import HOST, Recording
from runner.telemetry import host_source
from runner.telemetry.host_source import HostSource
from runner.telemetry.process_tree import Tree as ReadTree
from runner.telemetry.sample_log import SampleLog, recordings
from runner.telemetry.telemetry_interface import HostCounters, Reading
from support.fakes.samplers import Samplers, Tree, one_tree

pytestmark = pytest.mark.slow

WORK_NS = 300_000_000


def host(reading: Reading) -> HostCounters:
    """The counters of a reading without problem."""
    assert reading.host is not None and not reading.problem
    return reading.host


def total_ns(recording: Recording, column: str) -> float:
    """The CPU time that a column in percent of a CPU stands for."""
    spans = zip(recording.started_ns, recording.ended_ns, recording.values[column], strict=True)
    return sum((end - start) * (value or 0) / 100 for start, end, value in spans)


def test_a_child_s_work_is_the_tree_s_and_the_root_s_is_not(samplers: Samplers, tree: Tree) -> None:
    sampler = samplers.start()
    before = host(sampler.read_counters(tree.root))
    tree.use(0.3)
    after = host(sampler.read_counters(tree.root))
    assert WORK_NS <= after.tree_ns - before.tree_ns < 1.5 * WORK_NS
    assert after.ours_ns - before.ours_ns < WORK_NS / 2
    assert sum(after.busy_ns.values()) - sum(before.busy_ns.values()) >= 0.8 * WORK_NS


def test_what_a_child_used_stays_when_it_was_collected(samplers: Samplers, tree: Tree) -> None:
    sampler = samplers.start()
    tree.use(0.3)
    alive = host(sampler.read_counters(tree.root))
    tree.end_child()
    collected = host(sampler.read_counters(tree.root))
    assert collected.tree_ns >= alive.tree_ns - 20_000_000
    assert (collected.delay_ns or 0) >= (alive.delay_ns or 0)


def test_the_controller_s_work_is_ours(samplers: Samplers, tree: Tree) -> None:
    sampler = samplers.start()
    before = host(sampler.read_counters(tree.root))
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass
    after = host(sampler.read_counters(tree.root))
    assert after.ours_ns - before.ours_ns >= WORK_NS
    assert after.tree_ns - before.tree_ns < WORK_NS / 2


def test_a_stranger_s_work_is_foreign_and_the_tree_s_is_not(samplers: Samplers, tree: Tree) -> None:
    sampler = samplers.start()
    with one_tree() as stranger:
        sampler.start(tree.root, 10)
        samplers.rows(sampler, 1, HOST)
        tree.use(0.4)
        stranger.use(0.4)
        samplers.more_rows(sampler, 2, HOST)
        (recording,) = sampler.stop()
    busy = total_ns(recording, "cpu_busy") * len(os.sched_getaffinity(0))
    foreign = total_ns(recording, "foreign")
    assert 0.3e9 <= foreign <= busy - 0.3e9


def test_rows_are_about_the_cpus_of_the_case_that_is_looked_at(samplers: Samplers, tree: Tree) -> None:
    sampler = samplers.start()
    allowed = sorted(os.sched_getaffinity(0))
    for cpus, wanted in (((allowed[-1],), allowed[-1:]), ((), allowed)):
        sampler.start(tree.root, 10, cpus)
        samplers.rows(sampler, 2, HOST)
        (recording,) = sampler.stop()
        assert [int(name[3:]) for name in recording.values if name[3:].isdigit()] == wanted
        # Counters are of all, whatever rows were about.
        assert sorted(host(sampler.read_counters(tree.root)).busy_ns) == allowed


def test_rows_follow_each_other_without_a_gap(samplers: Samplers, tree: Tree) -> None:
    sampler = samplers.start()
    sampler.start(tree.root, 10)
    samplers.rows(sampler, 5, HOST)
    (recording,) = sampler.stop()
    assert (recording.device, recording.utilisation_source) == (HOST, "none")
    assert recording.started_ns[1:] == recording.ended_ns[:-1]
    assert all(start < end for start, end in zip(recording.started_ns, recording.ended_ns, strict=True))
    assert {"cpu_busy", "foreign", "steal", "run_queue", "tree_memory", "cpu0"} <= recording.values.keys()
    # The first row begins before the window does and is cut off: what is read seldom has to be in the second.
    assert recording.values["tree_memory"][0] is None and recording.values["tree_memory"][1]
    shares = [value for value in recording.values["cpu_busy"] if value is not None]
    assert all(0 <= share <= 100 for share in shares)
    readable = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq").exists()
    assert ("the CPU's frequency is not readable" in recording.notes) is not readable
    assert sampler.stop() == ()


def test_a_tree_that_is_gone_has_nothing(samplers: Samplers) -> None:
    with one_tree() as gone:
        root = gone.root
    counters = host(samplers.start().read_counters(root))
    assert (counters.tree_ns, counters.delay_ns) == (0, 0)


def test_waiting_is_not_forgotten_with_the_threads_that_waited(tree: Tree) -> None:
    read = ReadTree(tree.root)
    first = read.read_counts()
    tree.end_child()
    last = read.read_counts()
    assert first.pids == {tree.child} and not last.pids
    assert (last.waited_ns, last.slices) == (first.waited_ns, first.slices)


def test_ticks_are_owed_and_not_taken_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree that uses 5 ms a row while the kernel counts 10 ms every other row leaves nothing to others."""
    tick = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    rows = 40
    busy = [(row + 1) // 2 for row in range(rows + 1)]
    used = [row * tick // 2 for row in range(rows + 1)]
    assert owed_foreign(tmp_path, monkeypatch, busy, used) <= tick
    # Others who take a tick a row are seen whole.
    busy = [ticks + row for row, ticks in enumerate(busy)]
    assert owed_foreign(tmp_path, monkeypatch, busy, used) == pytest.approx(rows * tick, abs=tick)


def owed_foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: list[int], used: list[int]) -> float:
    """Nanoseconds of others on one CPU, from its ticks and the tree's time row by row."""
    times, read = host_source._Times, host_source._Moment  # pyright: ignore[reportPrivateUsage]
    counts = host_source.TreeCounts
    moments = iter(
        read(row * 100_000_000, {0: times(ticks, 0, row * 10)}, 1, counts(frozenset(), ns, 0, 0), 0)
        for row, (ticks, ns) in enumerate(zip(busy, used, strict=True))
    )
    source = HostSource((0,), (0,), os.getpid())
    monkeypatch.setattr(source, "_read_moment", lambda root: next(moments))
    file = tmp_path / f"{len(list(tmp_path.iterdir()))}.jsonl"
    log = SampleLog(file)
    source.begin(0, 10, log)
    for _ in busy[1:]:
        source.row(log)
    log.close()
    (recording,) = recordings([file])
    return total_ns(recording, "foreign")
