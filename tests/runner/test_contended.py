"""Real sessions beside real hogs, a GPU that is slowed down, and a sampler that dies or hangs."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

import psutil
import pytest

from records.outcomes import Outcome
from records.telemetry import Recording
from runner import journal
from runner.execution.session import Conditions, OutcomeMeasured, PhaseEntered
from runner.journal import Journal
from runner.preset import MachinePreset
from runner.session_plan import Timing
from runner.telemetry.gpu.nvml import THROTTLE_FIELDS
from runner.telemetry.sampler_client import Sampler
from runner.telemetry.telemetry_interface import GpuCounters, Reading
from support.fakes.nvml import Shim
from support.fakes.silent_telemetry import SilentTelemetry
from support.measuring import (
    CASE_FILES,
    QUICK,
    Happened,
    Scratch,
    carriers,
    conditions,
    follow,
    forked,
    start,
)
from support.site import unavailable
from support.waiting import until

pytestmark = pytest.mark.torch

CPUS = sorted(os.sched_getaffinity(0))
PINNED = MachinePreset("pinned", {"OMP_NUM_THREADS": "1"}, cpus=(CPUS[-1],), threads=1)
H200 = "GPU-11111111-2222-3333-4444-555555555555"
HOG = """
import os, signal, sys
signal.signal(signal.SIGUSR1, lambda *_: None)
os.sched_setaffinity(0, {int(sys.argv[1])})
with open(sys.argv[2] + ".partial", "w") as file:
    file.write(str(os.getpid()))
os.rename(sys.argv[2] + ".partial", sys.argv[2])
signal.pause()
while True:
    pass
"""
#: Each has a session of its own, for the kernel may share CPUs out by sessions: these get nine tenths.
HOGS = 9
#: Far above what another test's processes could take, far below what the hogs take.
LIMIT = 0.8
TIMING = replace(QUICK, block_seconds=0.1, measure_seconds=0.4, min_blocks=4, contention_limit=LIMIT)


@pytest.fixture
def hogs(tmp_path: Path) -> Generator[list[int]]:
    """Processes on the measured CPU that are none of this process's children, asleep until they are woken."""
    said = [tmp_path / f"hog{number}.pid" for number in range(HOGS)]
    for file in said:
        command = ["setsid", "--fork", sys.executable, "-c", HOG, str(PINNED.cpus[0]), str(file)]
        subprocess.run(command, check=True)
    until(lambda: all(file.exists() for file in said), "the hogs stand on the CPU")
    pids = [int(file.read_text()) for file in said]
    yield pids
    send_signal(pids, signal.SIGKILL)


def send_signal(pids: list[int], number: int) -> None:
    """Send processes a signal, as far as they are still there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def measured(
    shared: Conditions,
    meanwhile: Callable[[PhaseEntered | OutcomeMeasured], None] = lambda event: None,
    case: str = "counts",
) -> tuple[Outcome, Happened]:
    """The outcome of one case."""
    happened = one_session(shared, meanwhile, case)
    return happened.of(case.partition("/")[0]), happened


@pytest.fixture(scope="module")
def forking(module_scratch: Scratch) -> Iterator[Conditions]:
    """Cases that count, in forked workers on the pinned CPU, beside the sampler."""
    shared = conditions(module_scratch.folder, CASE_FILES / "counts.py", preset=PINNED, telemetry=Sampler)
    with forked(shared, "counts") as forking:
        yield forking
    module_scratch.assert_no_process_left(shared.run)


def on_a_gpu(forking: Conditions, timing: Timing) -> Conditions:
    """A case that counts, with the sampler on the H200 that the stand-in of NVML plays."""
    return replace(forking, timing=timing, gpus=(H200,))


def one_session(
    shared: Conditions, meanwhile: Callable[[PhaseEntered | OutcomeMeasured], None], *cases: str
) -> Happened:
    """What became of cases that are measured together."""
    with start(shared, *cases) as session:
        return follow(session, shared, meanwhile)


def test_a_case_next_to_hogs_is_contended_and_one_hog_is_named(scratch: Scratch, hogs: list[int]) -> None:
    timing = replace(TIMING, max_seconds=1.0)
    shared = conditions(
        scratch.folder, CASE_FILES / "counts.py", timing=timing, preset=PINNED, telemetry=Sampler
    )

    def wake_and_end_them(event: PhaseEntered | OutcomeMeasured) -> None:
        # Not before: importing torch beside them takes its time.
        if isinstance(event, PhaseEntered) and event.phase in ("first_call", "finish"):
            send_signal(hogs, signal.SIGUSR1 if event.phase == "first_call" else signal.SIGKILL)

    outcome, happened = measured(shared, wake_and_end_them)
    assert outcome.status == "contended", outcome.reason
    assert re.fullmatch(
        r"\d+ of \d+ blocks, at worst: it waited \d+ % of the time for a CPU, of which others used \d+ %; "
        r".+ \(pid \d+\) used \d+ % of one",
        outcome.reason,
    )
    tainted = outcome.facts["tainted_blocks"]
    assert len(outcome.blocks) - len(tainted) < 2
    assert all(interference["share"] > LIMIT for interference in tainted)
    assert {interference["status"] for interference in tainted} == {"contended"}
    scratch.assert_no_process_left(happened.run)
    assert not (scratch.folder / "run/telemetry").exists()


@pytest.fixture
def keeping_house() -> Generator[MachinePreset]:
    """The preset of hogs, with a CPU for this process, which keeps to that as a controller does."""
    if len(CPUS) < 2:
        unavailable("there is no second CPU for what measures")
    own = (CPUS[0],)
    os.sched_setaffinity(0, own)
    yield replace(PINNED, housekeeping=own)
    os.sched_setaffinity(0, CPUS)


def test_hogs_are_seen_in_a_session_with_a_case_on_cpus_of_its_own(
    scratch: Scratch, hogs: list[int], keeping_house: MachinePreset
) -> None:
    shared = conditions(
        scratch.folder,
        CASE_FILES / "counts.py",
        timing=replace(TIMING, max_seconds=1.0, observe_seconds=1.2),
        preset=keeping_house,
        telemetry=Sampler,
    )
    called = 0

    def wake_and_end_them(event: PhaseEntered | OutcomeMeasured) -> None:
        nonlocal called
        called += isinstance(event, PhaseEntered) and event.phase == "first_call"
        if isinstance(event, PhaseEntered) and event.phase in ("measure", "finish") and called == 2:
            send_signal(hogs, signal.SIGUSR1 if event.phase == "measure" else signal.SIGKILL)

    happened = one_session(shared, wake_and_end_them, "counts", "counts/infer/-/cpus=1")
    by_case = {outcome.case: outcome for outcome in happened.outcomes}
    assert len(by_case) == 2
    for outcome in by_case.values():
        assert outcome.status == "contended", outcome.reason
        assert outcome.facts["launch"]["cpus"] == list(PINNED.cpus)
        (host,) = outcome.telemetry
        looked_at = {name for name in host.values if name.removeprefix("cpu").isdigit()}
        assert looked_at == {f"cpu{cpu}" for cpu in PINNED.cpus}


def test_blocks_are_taken_again_when_the_hogs_have_left(scratch: Scratch, hogs: list[int]) -> None:
    timing = replace(TIMING, max_seconds=100.0)
    shared = conditions(
        scratch.folder, CASE_FILES / "counts.py", timing=timing, preset=PINNED, telemetry=Sampler
    )
    begun = 0

    def wake_and_end_them(event: PhaseEntered | OutcomeMeasured) -> None:
        nonlocal begun
        if isinstance(event, PhaseEntered) and event.phase == "first_call":
            send_signal(hogs, signal.SIGUSR1)
        begun += isinstance(event, PhaseEntered) and event.phase == "measure"
        if begun == 4:
            send_signal(hogs, signal.SIGKILL)

    outcome, _ = measured(shared, wake_and_end_them)
    assert outcome.status == "ok", outcome.reason
    tainted = {interference["block"] for interference in outcome.facts["tainted_blocks"]}
    assert tainted
    clean = [ns for number, block in enumerate(outcome.blocks) if number not in tainted for ns in block]
    assert len(outcome.blocks) - len(tainted) == outcome.facts["blocks"] >= 4
    assert outcome.facts["iterations"] == len(clean)
    assert outcome.metrics["latency"] == pytest.approx(median(clean) / 1e6)
    assert outcome.metrics["latency_min"] == min(clean) / 1e6


def test_a_gpu_that_is_slowed_down_and_looked_at(
    forking: Conditions, tmp_path: Path, shim: Shim, monkeypatch: pytest.MonkeyPatch
) -> None:
    hot = f"0 0 throttle_{THROTTLE_FIELDS['hw_thermal']} 0.5"
    for name, value in shim.variables("h200", hot).items():
        monkeypatch.setenv(name, value)
    shared = on_a_gpu(forking, replace(TIMING, max_seconds=0.5, observe_seconds=3, contention_limit=1.0))
    outcome, _ = measured(shared)
    assert outcome.status == "throttled", outcome.reason
    assert outcome.reason.endswith("of the time (hw_thermal)")
    host, gpu = outcome.telemetry
    assert (host.device, host.utilisation_source, gpu.device, gpu.utilisation_source) == (
        "host",
        "none",
        H200,
        "gpm",
    )
    started, ended, _ = outcome.facts["window"]
    for one in outcome.telemetry:
        assert len(one.started_ns) >= 3
        assert started <= one.started_ns[0] and one.ended_ns[-1] <= ended
    assert outcome.metrics["sm_utilisation"] == pytest.approx(80)
    assert outcome.metrics["throttled"] == pytest.approx(50, rel=0.1)
    assert {"cpu_busy", "foreign_cpu", "run_delay", "tree_memory"} <= outcome.metrics.keys()
    iterations = outcome.facts["window"][2]
    # 400 W, all the time.
    joules = outcome.metrics["energy_per_item"] * iterations
    assert joules == pytest.approx(400 * (ended - started) / 1e9, rel=0.1)
    # And all of it through the journal.
    with Journal(tmp_path / "kept") as kept:
        kept.header({"run": "kept"})
        kept.outcome(outcome)
    (again,) = journal.read_contents(tmp_path / "kept" / journal.FILE).outcomes
    assert again.telemetry == outcome.telemetry
    assert json.dumps(again.to_body()) == json.dumps(outcome.to_body())


@pytest.mark.parametrize(
    ("line", "status"), [("0 0 working 4242:0", "ok"), ("0 0 working 4242:50", "contended")]
)
def test_a_stranger_on_the_gpu_matters_where_it_computes(
    forking: Conditions, shim: Shim, monkeypatch: pytest.MonkeyPatch, line: str, status: str
) -> None:
    for name, value in shim.variables("h200", line).items():
        monkeypatch.setenv(name, value)
    # No load of the CPU counts here.
    shared = on_a_gpu(forking, replace(TIMING, max_seconds=0.5, contention_limit=0.99))
    outcome, _ = measured(shared)
    assert outcome.status == status, outcome.reason
    if status == "ok":
        note = "another process has memory on its GPU (pid 4242)"
        assert note in outcome.facts["telemetry_notes"]
    else:
        assert outcome.reason.endswith("another process computes on its GPU (pid 4242)")


def test_a_case_that_sleeps_of_its_own_accord_was_not_robbed(forking: Conditions) -> None:
    # Everything counts: what is looked at is what the outcome says of its core.
    shared = replace(forking, timing=replace(TIMING, contention_limit=0.99))
    with forked(shared, "waits") as forks:
        outcome, _ = measured(forks, case="waits")
    assert outcome.status == "ok", outcome.reason
    # Others may have some of the core, but never what it sleeps.
    assert outcome.facts["cpu_share"] < 0.4 < outcome.facts["core_share"]


def test_a_sampler_that_is_killed_costs_no_outcome(forking: Conditions) -> None:
    shared = replace(forking, timing=replace(TIMING, observe_seconds=0.2, contention_limit=1.0))
    killed: list[int] = []

    def kill_it(event: PhaseEntered | OutcomeMeasured) -> None:
        if isinstance(event, PhaseEntered) and event.phase in ("measure", "observe"):
            for pid in carriers(shared.run):
                with contextlib.suppress(psutil.Error):
                    if "runner.telemetry.sampler" in psutil.Process(pid).cmdline():
                        os.kill(pid, signal.SIGKILL)
                        killed.append(pid)

    outcome, happened = measured(shared, kill_it)
    assert killed
    assert outcome.status == "ok", outcome.reason
    assert any("sampler was" in note for note in outcome.facts["telemetry_notes"])
    assert outcome.metrics["latency"] > 0
    assert carriers(happened.run) == []


def test_a_driver_that_never_answers_holds_no_session_up(
    forking: Conditions, shim: Shim, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in shim.variables("h200", "0 - block nvmlDeviceGetFieldValues 100000000").items():
        monkeypatch.setenv(name, value)
    # Long enough for three rows of the CPU, on whatever machine.
    shared = on_a_gpu(forking, replace(TIMING, observe_seconds=3, contention_limit=1.0))
    outcome, happened = measured(shared)
    assert outcome.status == "ok", outcome.reason
    assert outcome.facts["telemetry_notes"]
    assert "cpu_busy" in outcome.metrics
    assert not outcome.metrics.keys() & {"sm_utilisation", "gpu_busy", "power", "energy_per_item"}
    assert carriers(happened.run) == []


class ErrorsInTheFirstBlocks(SilentTelemetry):
    """Reports a GPU that made an error in each of the first blocks, in which the case waits for long."""

    BLOCKS = 3

    def __init__(self, slow: Path) -> None:
        self._slow = slow
        self._marks = 0

    def read_counters(self, root: int) -> Reading:
        self._marks += 1
        if self._marks == 1:
            self._slow.touch()
        elif self._marks == 2 * self.BLOCKS:
            self._slow.unlink()
        errors = min(self._marks // 2, self.BLOCKS)
        return Reading(self._marks, gpus=(GpuCounters(H200, ecc_uncorrected=errors),))


class TwoGpus(SilentTelemetry):
    """Reports two GPUs, the second of which makes an error all the time."""

    def __init__(self) -> None:
        self._marks = 0

    def read_counters(self, root: int) -> Reading:
        self._marks += 1
        second = GpuCounters("GPU-2", ecc_uncorrected=self._marks)
        return Reading(self._marks, gpus=(GpuCounters("GPU-1", ecc_uncorrected=0), second))

    def stop(self) -> tuple[Recording, ...]:
        return tuple(Recording(device, "", "none", (), (), {}) for device in ("host", "GPU-1", "GPU-2"))


def test_a_case_gets_readings_of_its_own_gpus_only(scratch: Scratch) -> None:
    if len(CPUS) < 2:
        unavailable("two ranks need two CPUs")
    uuids_read: list[tuple[str, ...]] = []

    def start(spool: Path, uuids: tuple[str, ...], *_: object) -> TwoGpus:
        uuids_read.append(uuids)
        return TwoGpus()

    shared = conditions(
        scratch.folder,
        CASE_FILES / "several.py",
        timing=replace(TIMING, max_seconds=1.0, observe_seconds=0.1),
        telemetry=start,
        # As PyTorch prints them.
        gpus=("1", "2", "3"),
    )
    # Tensor parallel: no collective is measured by itself.
    ranks = "blocks/infer/batch=4/parallel=tp,ranks=2"
    happened = one_session(shared, lambda _: None, "blocks/infer/batch=4/eager", ranks)
    alone, two_ranks = (
        next(outcome for outcome in happened.outcomes if outcome.case.endswith(technique))
        for technique in ("eager", "ranks=2")
    )
    assert uuids_read == [("1", "2")]
    assert alone.status == "ok", alone.reason
    assert [one.device for one in alone.telemetry] == ["host", "GPU-1"]
    assert two_ranks.status == "throttled", two_ranks.reason
    assert [one.device for one in two_ranks.telemetry] == ["host", "GPU-1", "GPU-2"]


def test_instances_forget_their_own_samples_of_a_block_that_does_not_count(scratch: Scratch) -> None:
    # Blocks of three iterations, two of which count: the median of all samples would be one of the others.
    timing = replace(TIMING, block_seconds=0.001, measure_seconds=0.0, min_blocks=2, observe_seconds=0.2)
    shared = conditions(
        scratch.folder,
        CASE_FILES / "counts.py",
        timing=replace(timing, max_seconds=100.0),
        telemetry=lambda *_: ErrorsInTheFirstBlocks(scratch.folder / "slow"),
        gpus=(H200,),
    )
    outcome, _ = measured(shared, case="waits/infer/-/instances=2")
    assert outcome.status == "ok", outcome.reason
    assert [interference["block"] for interference in outcome.facts["tainted_blocks"]] == [0, 1, 2]
    assert [len(block) for block in outcome.blocks] == [3] * 5
    slow = min(ns for block in outcome.blocks[:3] for ns in block)
    assert slow >= 50e6
    for member in outcome.facts["members"]:
        assert member["latency_ms"] * 1e6 < slow
    assert outcome.metrics["throughput"] > 2 / (slow / 1e9)
    started, ended, iterations = outcome.facts["window"]
    assert ended - started >= 0.2e9
    assert iterations >= 2
