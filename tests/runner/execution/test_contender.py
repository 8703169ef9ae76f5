"""One contender without its session, with scripted telemetry."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from statistics import fmean

import pytest

from records.outcomes import Outcome, PlannedReplicate
from records.telemetry import Recording
from runner.execution.contender import Contender, ContenderFinished
from runner.execution.process import Launch, WorkerProcess
from runner.execution.session import Conditions
from runner.nodes import Node
from runner.session_plan import Timing
from runner.telemetry.telemetry_interface import GpuCounters, Reading, Telemetry
from runner.worker.messages import Message
from support.fakes.silent_telemetry import SilentTelemetry
from support.measuring import CASE_FILES, QUICK, Scratch, conditions, forked, key

pytestmark = pytest.mark.torch

NODES = (Node("first", "10.0.0.1"), Node("second", "10.0.0.2", ("ssh", "second")))


class HundredWatts(SilentTelemetry):
    """Reports a GPU that took 100 W all the time."""

    def read_counters(self, root: int) -> Reading:
        return Reading(time.monotonic_ns())

    def start(self, root: int, hz: float, cpus: tuple[int, ...] = ()) -> None:
        self._from = time.monotonic_ns()

    def stop(self) -> tuple[Recording, ...]:
        until = time.monotonic_ns()
        ends = [self._from + (until - self._from) * number // 20 for number in range(21)]
        seconds = (until - self._from) / 20e9
        values = {"energy": (100 * seconds,) * 20, "power": (100.0,) * 20}
        return (Recording("GPU-1", "a GPU", "gpm", tuple(ends[:-1]), tuple(ends[1:]), values),)


class ErrorsAfterSixSamples(SilentTelemetry):
    """Reports a GPU that makes errors in all blocks but the first two."""

    def __init__(self) -> None:
        self._marks = 0

    def read_counters(self, root: int) -> Reading:
        self._marks += 1
        return Reading(self._marks, gpus=(GpuCounters("GPU-1", ecc_uncorrected=max(4, self._marks)),))


class ReportsAnXid(ErrorsAfterSixSamples):
    """Reports an Xid at every reading."""

    def __init__(self, xid: int) -> None:
        super().__init__()
        self._xid = xid

    def read_counters(self, root: int) -> Reading:
        return Reading(1, gpus=(GpuCounters("GPU-1", xids=(self._xid,)),))


@pytest.fixture(scope="module")
def forking(module_scratch: Scratch) -> Iterator[Conditions]:
    """What the contenders of this file share: their workers are forked."""
    files = (CASE_FILES / "counts.py", CASE_FILES / "ends_badly.py")
    with forked(conditions(module_scratch.folder, *files)) as shared:
        yield shared


def outcome_of(
    shared: Conditions, case: str, timing: Timing, telemetry: Telemetry | None, *nodes: Node
) -> Outcome:
    """What becomes of a case of a run over these nodes."""
    assert shared.forks is not None
    (target,) = shared.targets.values()
    launch = Launch(
        python=target.python,
        harness=shared.harness,
        variables={},
        cpus=(),
        own_cpus=(),
        log=shared.folder / "log",
        deadline_seconds=timing.deadline_seconds,
        token=shared.run,
        nodes=nodes,
        fork=shared.forks.fork,
    )
    planned = PlannedReplicate(key(case), target.name, 0)
    contender = Contender(planned, launch, timing, "cpu", None, lambda *_: None, None, telemetry)
    try:
        with contextlib.suppress(ContenderFinished):
            contender.prepare()
            while not contender.satisfied:
                contender.measure()
            contender.finish()
    finally:
        contender.abandon()
    assert contender.outcome is not None
    return contender.outcome


def test_there_is_no_energy_per_item_where_others_gpus_are_not_read(forking: Conditions) -> None:
    timing = replace(QUICK, observe_seconds=1.3)
    alone = outcome_of(forking, "counts", timing, HundredWatts())
    assert (alone.status, alone.metrics["power"]) == ("ok", pytest.approx(100))
    started, ended, iterations = alone.facts["window"]
    joules = 100 * (ended - started) / 1e9
    assert alone.metrics["energy_per_item"] == pytest.approx(joules / iterations, rel=1e-3)
    unmeasured = outcome_of(forking, "counts", timing, HundredWatts(), *NODES)
    assert (unmeasured.status, unmeasured.metrics["power"]) == ("ok", pytest.approx(100))
    assert "energy_per_item" not in unmeasured.metrics


def test_memory_is_sampled_until_the_first_block_and_never_after(
    forking: Conditions, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders: list[str] = []
    send = WorkerProcess.send

    def note(worker: WorkerProcess, message: Message) -> None:
        orders.append(type(message).__name__)
        send(worker, message)

    monkeypatch.setattr(WorkerProcess, "send", note)
    monkeypatch.setattr(WorkerProcess, "stop_sampling", lambda _: orders.append("stop sampling"))
    assert outcome_of(forking, "counts", QUICK, None).status == "ok"
    assert orders[:3] == ["Prepare", "stop sampling", "Measure"]
    assert orders.count("stop sampling") == 1


def test_every_shape_is_timed_though_fewer_blocks_would_be_enough(forking: Conditions) -> None:
    outcome = outcome_of(forking, "turns", QUICK, None)
    assert (outcome.status, outcome.facts["shapes"]) == ("ok", 16)
    samples = [ns for block in outcome.blocks for ns in block]
    assert len(samples) >= 16
    assert outcome.metrics["latency_floor"] * 1e6 == pytest.approx(
        fmean(min(samples[place::16]) for place in range(16))
    )


def test_a_mean_over_a_part_of_the_shapes_is_not_reported(forking: Conditions) -> None:
    outcome = outcome_of(forking, "turns", QUICK, ErrorsAfterSixSamples())
    assert [len(block) for block in outcome.blocks[:2]] == [3, 3]
    assert outcome.status == "throttled"
    assert ", with all samples of 10 of 16 shapes, at worst: its GPU counted" in outcome.reason
    assert not {name for name in outcome.metrics if name.startswith(("latency", "throughput"))}


@pytest.mark.parametrize(
    ("case", "ended", "reported"),
    [
        ("is_killed_by_its_reference", "killed by SIGKILL in check (killed from outside)", True),
        ("exits_in_its_reference", "the case called sys.exit(3)", True),
        ("is_killed_by_its_report", "killed by SIGKILL in finish (killed from outside)", False),
    ],
)
def test_what_ends_after_the_last_block_costs_no_metric_that_was_reported(
    forking: Conditions, case: str, ended: str, reported: bool
) -> None:
    outcome = outcome_of(forking, case, QUICK, None)
    assert (outcome.status, outcome.reason, outcome.phase) == ("ok", "", "")
    assert outcome.facts["check"] == {"error": None, "wrong": "", "note": f"not compared: {ended}"}
    assert outcome.metrics["latency_floor"] > 0 and len(outcome.blocks) >= 3
    assert ("rss_peak" in outcome.metrics) is reported


def test_a_case_that_ran_eager_is_not_compiled_though_it_dies_after_its_last_block(
    forking: Conditions,
) -> None:
    case = "runs_eager_and_is_killed_by_its_report/infer/-/compile=aot_eager"
    outcome = outcome_of(forking, case, QUICK, None)
    assert outcome.status == "not_compiled"
    assert outcome.reason == "Dynamo made no graph: the model ran eager"


def test_a_gpu_that_fails_during_the_check_loses_the_session(forking: Conditions) -> None:
    assert outcome_of(forking, "is_killed_by_its_reference", QUICK, ReportsAnXid(79)).status == "lost"


@pytest.mark.parametrize(("xid", "status"), [(79, "lost"), (31, "crashed")])
def test_a_crash_under_a_gpu_that_failed_says_nothing_of_the_case(
    forking: Conditions, xid: int, status: str
) -> None:
    telemetry = ReportsAnXid(xid)
    outcome = outcome_of(forking, "raises_in_step", QUICK, telemetry)
    assert outcome.status == status
    assert ("Xid 79" in outcome.reason) is (xid == 79) and "shapes do not fit" in outcome.reason
