"""Where a process really ran, read from /proc of this very process."""

import os
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from runner.worker.case_key import CaseKey
from runner.worker.measurements import affinity_check
from runner.worker.measurements.affinity_check import (
    StartConditionNotMet,
    ThreadPlacement,
    allocator,
    check_start_conditions,
    pages_local,
    parse_cpu_list,
)
from runner.worker.messages import Block

SECOND = Block(samples_ns=(1,), wall_ns=10**9, started_ns=0)

#: Two files of two nodes, a huge page, and a mapping without any page.
NUMA_MAPS = """\
7f0000000000 default file=/usr/lib/libc.so mapped=30 N0=30 kernelpagesize_kB=4
7f0000100000 default anon=70 dirty=70 N0=10 N1=60 kernelpagesize_kB=4
7f0000200000 bind:1 anon=1 dirty=1 N1=1 kernelpagesize_kB=2048
7f0000300000 default
"""


@contextmanager
def one_cpu() -> Generator[int]:
    """This thread on one CPU for a while."""
    before = os.sched_getaffinity(0)
    cpu = max(before)
    os.sched_setaffinity(0, {cpu})
    try:
        yield cpu
    finally:
        os.sched_setaffinity(0, before)


def spin(seconds: float) -> None:
    """Compute for a while."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_a_pinned_thread_is_seen_where_it_is_pinned() -> None:
    with one_cpu() as cpu:
        place = ThreadPlacement()
        place.before()
        spin(0.03)
        place.after(SECOND)
    affinity = place.facts()["affinity"]
    assert affinity["seen"] == [cpu]
    assert str(cpu) in affinity["allowed"]


def test_switches_of_all_threads_are_counted_and_those_before_are_not() -> None:
    def sleeps_often() -> None:
        for _ in range(100):
            time.sleep(0.0001)

    sleeps_often()
    place = ThreadPlacement()
    place.before()
    slept, stop = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: (sleeps_often(), slept.set(), stop.wait()))
    thread.start()
    slept.wait()
    place.after(SECOND)
    stop.set()
    thread.join()
    counted = place.metrics("cpu")["switches"]
    assert 100 <= counted <= 1000
    place.before()
    place.after(SECOND)
    assert place.metrics("cpu")["switches"] < counted
    assert place.metrics("cuda:0") == {}


def test_moves_between_cpus_are_counted_where_the_kernel_counts_them() -> None:
    allowed = sorted(os.sched_getaffinity(0))
    place = ThreadPlacement()
    place.before()
    try:
        for _ in range(10):
            for cpu in (allowed[0], allowed[-1]):
                os.sched_setaffinity(0, {cpu})
        place.after(SECOND)
    finally:
        os.sched_setaffinity(0, allowed)
    if affinity_check.snapshot()[threading.get_native_id()].moves is None:
        assert "migrations" not in place.metrics("cpu")
    else:
        assert place.metrics("cpu")["migrations"] >= (19 if len(allowed) > 1 else 0)


def test_pages_are_weighed_by_their_size() -> None:
    whole = 30 * 4 + 70 * 4 + 2048
    assert pages_local(NUMA_MAPS, {0}) == pytest.approx(40 * 4 / whole)
    assert pages_local(NUMA_MAPS, {1}) == pytest.approx((60 * 4 + 2048) / whole)
    assert pages_local(NUMA_MAPS, {0, 1}) == 1.0
    assert pages_local("", {0}) is None


def test_lists_of_cpus_are_read() -> None:
    assert parse_cpu_list("0-2,8\n") == {0, 1, 2, 8}
    assert parse_cpu_list("") == set()


def test_threads_use_no_more_cpus_than_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    assert affinity_check.in_use("cpu", 1) == {"cpus_in_use": 1}
    assert affinity_check.in_use("cpu", 10_000) == {"cpus_in_use": len(os.sched_getaffinity(0))}
    with one_cpu():
        assert affinity_check.in_use("cpu", 2) == {"cpus_in_use": 1}
        monkeypatch.setenv("OMP_PROC_BIND", "close")
        assert affinity_check.in_use("cpu", 2) == {"cpus_in_use": 2}, (
            "the main thread is bound, another is not"
        )
    assert affinity_check.in_use("cuda:0", 1) == {}


def test_the_allocator_is_known_by_its_mapping() -> None:
    line = "7f00-7f01 r-xp 00000000 fe:00 12 /usr/lib/x86_64-linux-gnu/{}\n"
    assert allocator(line.format("libtcmalloc_minimal.so.4.5.9")) == "tcmalloc"
    assert allocator(line.format("libjemalloc.so.2")) == "jemalloc"
    assert allocator(line.format("libc.so.6")) == allocator() == "libc"


def test_threads_that_are_not_placed_as_requested_are_refused() -> None:
    for fine in ("eager", "allocator=quiet", "allocator=hugetlb", "threads=3"):
        assert check_start_conditions(CaseKey.parse(f"x/infer/-/{fine}"), 3) == {"allocator_loaded": "libc"}
    with pytest.raises(
        StartConditionNotMet, match=r"^malloc was to be jemalloc, but libc serves it: the preload did"
    ):
        check_start_conditions(CaseKey.parse("x/infer/-/allocator=jemalloc"), 3)
    with pytest.raises(StartConditionNotMet, match=r"^torch takes 2 threads here, not the 3 asked for$"):
        check_start_conditions(CaseKey.parse("x/infer/-/threads=3"), 2)
