"""The sampler's life: killed, silent, deserted; it loses what it must and leaves nothing behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from records.telemetry import HOST
from runner.execution.process import sweep
from runner.telemetry import sampler_client
from support.fakes.samplers import Samplers, Tree
from support.processes import alive, processes_below
from support.waiting import until

pytestmark = pytest.mark.slow

#: Starts a sampler, says which, and waits to be killed.
_CONTROLLER = """
import sys, time
from pathlib import Path
import psutil
from runner.telemetry.sampler_client import Sampler
sampler = Sampler(Path(sys.argv[1]), (), (), (), "test-deserted")
assert sampler.read_counters(1).host
print(psutil.Process().children()[0].pid, flush=True)
time.sleep(600)
"""


def test_killed_before_a_request_it_is_started_again_three_times(samplers: Samplers, tree: Tree) -> None:
    sampler = samplers.start()
    again = "the sampler was started again: counters before and after do not belong together"
    for _ in range(3):
        os.kill(samplers.pid(sampler), signal.SIGKILL)
        until(lambda: not dead_is_unseen(sampler), "its end is seen")
        reading = sampler.read_counters(tree.root)
        assert reading.host is not None and reading.problem == again
        assert sampler.read_counters(tree.root).problem == ""
    os.kill(samplers.pid(sampler), signal.SIGKILL)
    reading = sampler.read_counters(tree.root)
    assert reading.host is None and reading.problem.startswith("the sampler was killed by signal 9")
    assert "is not started again" in sampler.read_counters(tree.root).problem
    sampler.start(tree.root, 5)
    (recording,) = sampler.stop()
    assert recording.device == HOST and not recording.started_ns and recording.notes


def dead_is_unseen(sampler: sampler_client.Sampler) -> bool:
    """Whether a killed process still counts as alive."""
    process = sampler._process  # pyright: ignore[reportPrivateUsage]
    return process is not None and process.poll() is None


def test_killed_within_a_watch_its_rows_are_kept_and_others_follow(samplers: Samplers, tree: Tree) -> None:
    sampler = samplers.start()
    sampler.start(tree.root, 10)
    samplers.rows(sampler, 3, HOST)
    os.kill(samplers.pid(sampler), signal.SIGKILL)
    # Half a line, as a full disk or a kill may leave it.
    (file,) = samplers.folder.glob("0/*-0.jsonl")
    with file.open("a") as log:
        log.write('{"row":"ho')
    until(lambda: sampler.read_counters(tree.root).host, "the sampler reads")
    assert sampler.read_counters(tree.root).problem == ""
    samplers.rows(sampler, 6, HOST)
    (recording,) = sampler.stop()
    gaps = [start - end for start, end in zip(recording.started_ns[1:], recording.ended_ns[:-1], strict=True)]
    assert len(recording.started_ns) >= 6 and sum(gap > 0 for gap in gaps) == 1 and min(gaps) == 0
    assert "the sampler was killed by signal 9: rows are missing from there on" in recording.notes
    assert not list(samplers.folder.glob("0/*"))


def test_a_silent_one_is_given_up_and_replaced(
    samplers: Samplers, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler_client, "_TIMEOUT_SECONDS", 0.3)
    sampler = samplers.start()
    assert sampler.read_counters(tree.root).host
    stopped = samplers.pid(sampler)
    os.kill(stopped, signal.SIGSTOP)
    reading = sampler.read_counters(tree.root)
    assert (reading.host, reading.problem) == (None, "the sampler does not answer: nothing within 0.3 s")
    assert not psutil.pid_exists(stopped)
    assert sampler.read_counters(tree.root).host


def test_ctrl_c_is_not_for_it_and_a_sweep_is(samplers: Samplers, tree: Tree) -> None:
    sampler = samplers.start()
    assert sampler.read_counters(tree.root).host
    pid = samplers.pid(sampler)
    os.kill(pid, signal.SIGINT)
    assert sampler.read_counters(tree.root).problem == ""
    assert sweep(samplers.tokens[0]) == [pid]


def samplers_of_this_process() -> list[psutil.Process]:
    """Other tests' servers may be children of this process too."""
    return processes_below(lambda line: "runner.telemetry.sampler" in line)


def test_it_keeps_to_its_cpus_and_reads_the_measured_ones(tmp_path: Path, tree: Tree) -> None:
    first, *_, last = (*sorted(os.sched_getaffinity(0)),) * 2
    sampler = sampler_client.Sampler(tmp_path, (), (first,), (last,), "test-place")
    try:
        sampler.start(tree.root, 10)
        (process,) = samplers_of_this_process()
        assert (process.cpu_affinity(), process.nice()) == ([last], psutil.Process().nice() + 5)
        until(lambda: any('"row"' in file.read_text() for file in tmp_path.glob("*.jsonl")), "it writes rows")
        (recording,) = sampler.stop()
        assert {name for name in recording.values if name.startswith("cpu")} == {"cpu_busy", f"cpu{first}"}
    finally:
        sampler.close()


def test_it_goes_when_its_controller_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _CONTROLLER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as controller:
        assert controller.stdout
        sampler = psutil.Process(int(controller.stdout.readline()))
        assert sampler.is_running()
        controller.kill()
    until(lambda: not alive(sampler.pid), "it has ended")


def test_closed_it_is_gone_and_says_so(samplers: Samplers, tree: Tree) -> None:
    sampler = samplers.start()
    sampler.start(tree.root, 10)
    samplers.rows(sampler, 1, HOST)
    pid = samplers.pid(sampler)
    sampler.close()
    assert not psutil.pid_exists(pid) and not list(samplers.folder.glob("0/*"))
    assert sampler.read_counters(tree.root).problem == "the sampler is closed"
    sampler.close()


def test_rows_that_find_no_place_are_counted(samplers: Samplers, tree: Tree) -> None:
    samplers.folder.mkdir()
    (samplers.folder / "0").write_text("no folder")
    sampler = samplers.start()
    sampler.start(tree.root, 10)
    assert sampler.read_counters(tree.root).host
    (recording,) = sampler.stop()
    assert not recording.started_ns
    assert any(note.endswith("rows or notes could not be written") for note in recording.notes)


def test_one_that_cannot_be_started_is_a_sentence(
    samplers: Samplers, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    sampler = samplers.start()
    assert "could not be started: No such file" in sampler.read_counters(tree.root).problem
    sampler.start(tree.root, 5)
    assert sampler.stop()[0].device == HOST
