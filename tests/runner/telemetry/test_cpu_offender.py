"""Who took the CPU: real processes and known figures."""

import os
import subprocess
import sys
import time
from dataclasses import replace

from runner.telemetry.interference import Offender, ProcessCpuTime, busiest, cpu_times, own_processes

HOG = ProcessCpuTime("hog", 0.5, 1, 1)


def test_the_one_that_used_most_is_named_with_its_share() -> None:
    before = {(7, 1): HOG, (8, 1): replace(HOG, name="other")}
    after = {(7, 1): replace(HOG, seconds=2.0), (8, 1): replace(HOG, name="other", seconds=1.0)}
    found = busiest(before, after, 3.0, (1,), frozenset())
    assert found == Offender("hog", 7, 0.5)
    assert busiest(before, after, 3.0, (1,), frozenset({7})) == Offender("other", 8, 0.5 / 3)
    assert busiest(before, after, 3.0, (1,), frozenset({7, 8})) is None
    # An id that is used again is another process.
    assert busiest(before, {(7, 2): HOG}, 1.0, (), frozenset()) == Offender("hog", 7, 0.5)


def test_who_ran_elsewhere_or_hardly_is_not_to_blame() -> None:
    after = {(7, 1): replace(HOG, seconds=2.0)}
    assert busiest({(7, 1): HOG}, after, 3.0, (0,), frozenset()) is None
    assert busiest({(7, 1): HOG}, after, 3.0, (), frozenset()) is not None
    several = {(7, 1): replace(HOG, seconds=2.0, threads=2)}
    assert busiest({(7, 1): HOG}, several, 3.0, (0,), frozenset()) is not None
    assert busiest({(7, 1): HOG}, {(7, 1): replace(HOG, seconds=0.51)}, 3.0, (), frozenset()) is None


def test_a_real_process_is_seen_and_a_child_is_our_own() -> None:
    before = cpu_times()
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as spinning:
        assert {os.getpid(), spinning.pid} <= own_processes()
        while not any(pid == spinning.pid and used.seconds > 0.05 for (pid, _), used in cpu_times().items()):
            time.sleep(0.01)
        after = {key: used for key, used in cpu_times().items() if key[0] == spinning.pid}
        spinning.kill()
    found = busiest(before, after, 0.1, (), frozenset())
    assert found is not None
    assert (found.name[:6], found.pid) == ("python", spinning.pid)
    assert found.share >= 0.5
