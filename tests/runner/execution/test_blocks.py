"""Which blocks count, when there are enough of them, and what becomes of a case of which too few do."""

import os
import shutil
import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.execution.blocks import Blocks
from runner.execution.metrics import replicate_metrics
from runner.session_plan import Timing
from runner.telemetry.interference import Interference, InterferenceCheck
from runner.telemetry.telemetry_interface import GpuCounters, HostCounters, Reading
from runner.worker.messages import Block, Finished, Measure, Ready
from support.fakes.silent_telemetry import SilentTelemetry

MS = 1_000_000
TIMING = Timing(measure_seconds=1.0, block_seconds=0.1, min_blocks=5, max_seconds=4.0)
SLOW = Interference(
    "contended", "cpu", "it waited 50 % of the time for a CPU, of which others used 50 %", 0.5
)
HOT = Interference("throttled", "gpu", "its GPU held the clock down for 12 % of the time (hw_thermal)", 0.12)


def block(ms: int = 100, samples: int = 10) -> Block:
    """A block of that many milliseconds."""
    return Block((ms * MS // samples,) * samples, ms * MS, 0)


def taken(*taints: Interference | None, ms: int = 100) -> Blocks:
    """Blocks of which each had that interference."""
    blocks = Blocks(TIMING)
    for interference in taints:
        blocks.take(block(ms), interference)
    return blocks


def test_only_clean_blocks_are_enough() -> None:
    assert taken(*[None] * 10).satisfied
    assert not taken(*[None] * 9, SLOW).satisfied
    assert taken(*[SLOW] * 3, *[None] * 10).satisfied


def test_the_cap_is_on_all_that_was_taken() -> None:
    assert not taken(*[SLOW] * 39).satisfied
    assert taken(*[SLOW] * 40).satisfied
    assert taken(*[SLOW, None] * 20).invalid_reason() is None
    # So slow that the first block reached it: two are enough, and each may be taken twice.
    assert not taken(None, SLOW, SLOW, ms=5_000).satisfied
    assert taken(None, SLOW, SLOW, None, ms=5_000).satisfied
    assert taken(None, None, ms=5_000).satisfied
    assert taken(*[SLOW] * 4, ms=5_000).satisfied


def turns(*taints: Interference | None, shapes: int, samples: int = 1, ms: int = 100) -> Blocks:
    """Blocks of a case whose steps take inputs of so many shapes in turn."""
    blocks = taken()
    blocks.shapes = shapes
    for interference in taints:
        blocks.take(block(ms, samples), interference)
    return blocks


def test_every_shape_has_to_be_timed() -> None:
    # Five blocks of three samples are enough of one shape.
    assert turns(*[None] * 5, shapes=1, samples=3, ms=300).satisfied
    assert not turns(*[None] * 5, shapes=16, samples=3, ms=300).satisfied
    assert turns(*[None] * 6, shapes=16, samples=3, ms=300).satisfied
    # The turn goes on through a block that does not count: it takes another round.
    assert not turns(SLOW, *[None] * 5, shapes=16, samples=3, ms=300).satisfied
    assert turns(SLOW, *[None] * 6, shapes=16, samples=3, ms=300).satisfied
    assert [
        turns(None, interference, shapes=16, samples=3).untimed_shapes for interference in (None, SLOW)
    ] == [
        10,
        13,
    ]
    assert turns(None, shapes=4, samples=9).untimed_shapes == 0


def test_the_cap_leaves_no_shape_out() -> None:
    assert not turns(*[None] * 8, shapes=9, ms=1_000).satisfied
    assert turns(*[None] * 9, shapes=9, ms=1_000).satisfied
    # As a block may be, each shape may be taken twice.
    assert not turns(SLOW, *[None] * 8, *[SLOW] * 8, shapes=9, ms=1_000).satisfied
    assert turns(SLOW, *[None] * 8, *[SLOW] * 9, shapes=9, ms=1_000).satisfied
    assert turns(SLOW, *[None] * 9, shapes=9, ms=1_000).satisfied


def test_a_case_of_which_a_shape_was_never_timed_says_so() -> None:
    status, reason = turns(SLOW, *[None] * 8, *[SLOW] * 9, shapes=9).invalid_reason() or ("", "")
    assert status == "contended"
    assert reason == f"10 of 18 blocks, with all samples of 1 of 9 shapes, at worst: {SLOW.reason}"
    assert turns(SLOW, *[None] * 9, shapes=9).invalid_reason() is None


def test_rounds_of_several_shapes_are_not_extended_for_precision() -> None:
    assert turns(None, shapes=2).exhausted
    assert not turns(None, shapes=1).exhausted


def test_a_case_of_too_few_clean_blocks_says_how_many_and_who_it_was() -> None:
    few = taken(*[SLOW] * 30, *[HOT] * 9, None)
    status, reason = few.invalid_reason("; hog (pid 7) used 50 % of one") or ("", "")
    assert status == "contended"
    assert reason == f"30 of 40 blocks, at worst: {SLOW.reason}; hog (pid 7) used 50 % of one"
    assert taken(*[SLOW] * 9, *[HOT] * 30, None).invalid_reason("; hog") == (
        "throttled",
        f"30 of 40 blocks, at worst: {HOT.reason}",
    )
    assert taken(*[None] * 2, *[SLOW] * 38).invalid_reason() is None
    assert taken(None).invalid_reason() is None
    facts = taken(None, SLOW).facts()
    assert facts == {
        "block_floors_ns": [10_000_000] * 2,
        "tainted_blocks": [
            {"block": 1, "status": "contended", "cause": "cpu", "reason": SLOW.reason, "share": 0.5}
        ],
    }
    assert "tainted_blocks" not in taken(None, None).facts()
    assert taken().facts() == {}


samples = st.lists(st.integers(1, 10**9), min_size=1, max_size=6).map(tuple)


@given(
    st.lists(st.tuples(samples, st.booleans()), min_size=1, max_size=6).filter(
        lambda blocks: not all(left_out for _, left_out in blocks)
    ),
    st.integers(1, 4),
)
def test_no_sample_of_a_tainted_block_enters_a_metric(
    blocks: list[tuple[tuple[int, ...], bool]], shapes: int
) -> None:
    ready = Ready(1, 1, facts={"items": 1, "shapes": shapes})
    left_out = {number for number, (_, is_left_out) in enumerate(blocks) if is_left_out}

    def metrics(of_tainted: int) -> dict[str, float]:
        all_blocks = [
            Block(tuple(ns * of_tainted for ns in each) if out else each, 1, 0) for each, out in blocks
        ]
        return replicate_metrics(ready, all_blocks, Finished(), {}, "", None, left_out)

    found = metrics(1)
    assert found == metrics(1000)
    clean = [ns for each, out in blocks if not out for ns in each]
    assert found["latency_min"] == min(clean) / 1e6
    if shapes == 1:
        assert found["latency"] == pytest.approx(median(clean) / 1e6)


def test_the_turn_of_the_shapes_goes_on_through_a_block_that_does_not_count() -> None:
    # Shapes of 1 and 9 in turn; the block between holds an odd number of steps.
    ready = Ready(1, 1, facts={"items": 1, "shapes": 2})
    blocks = [Block((1, 9, 1, 9), 20, 0), Block((100,), 100, 0), Block((9, 1, 9), 19, 0)]
    found = replicate_metrics(ready, blocks, Finished(), {}, "", None, {1})
    assert found["latency"] * 1e6 == pytest.approx((1 + 9) / 2)


class Scripted(SilentTelemetry):
    """Returns prepared readings."""

    def __init__(self, *readings: Reading) -> None:
        self._readings = list(readings)
        self.asked: list[int] = []

    def read_counters(self, root: int) -> Reading:
        self.asked.append(root)
        return self._readings.pop(0) if self._readings else Reading(0, problem="the sampler is dead")


def test_the_gate_reads_around_a_block_and_judges_it_by_the_contenders_cpus() -> None:
    quiet = HostCounters({0: 0, 1: 0}, {0: 0, 1: 0}, 0, 0, 0)
    busy = HostCounters({0: 0, 1: 100 * MS}, {0: 0, 1: 0}, 50 * MS, 50 * MS, 0)
    for cpus, wanted in (((1,), "contended"), ((0,), "")):
        source = Scripted(Reading(0, quiet), Reading(100 * MS, busy))
        gate = InterferenceCheck(source, 7, cpus, (), 0.05)
        gate.before()
        interference = gate.after(100 * MS)
        assert (interference.status if interference else "") == wanted
        assert source.asked == [7, 7]
        assert gate.facts() == {}


@pytest.mark.parametrize(
    ("used", "foreign", "waited", "stolen", "share"),
    [
        # It computes alone; it sleeps; it sleeps for half of the time and waits for others for a fifth.
        (100, 0, 0, 0, 1.0),
        (1, 60, 0, 0, 1.0),
        (30, 20, 20, 0, 0.8),
        # Three processes of the case take turns; two of them sleep for a while, and wait for each other.
        (98, 2, 190, 0, 0.98),
        (87, 1, 30, 0, 0.99),
        # Others, or the hypervisor, have half of the core.
        (50, 50, 50, 0, 0.5),
        (50, 0, 0, 50, 0.5),
        # It waits, and the kernel does not report it.
        (50, 50, None, 0, None),
    ],
)
def test_what_a_case_had_of_the_core_that_it_wanted(
    used: int, foreign: int, waited: int | None, stolen: int, share: float | None
) -> None:
    before = HostCounters({0: 0}, {0: 0}, 0, 0 if waited is not None else None, 0)
    delay = None if waited is None else waited * MS
    after = HostCounters({0: (used + foreign) * MS}, {0: stolen * MS}, used * MS, delay, 0)
    # Whatever is taken, the block counts here.
    check = InterferenceCheck(Scripted(Reading(0, before), Reading(100 * MS, after)), 7, (0,), (), 1.0)
    assert check.core_share() is None
    check.before()
    assert check.after(100 * MS) is None
    assert check.core_share() == (None if share is None else pytest.approx(share))


def test_a_case_that_a_quota_stopped_did_not_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    # Linux 6.18 counts the time for which it stops a thread as waiting; no other process runs in that time.
    before, after = (
        HostCounters({0: 0}, {0: 0}, 0, 0, 0),
        HostCounters({0: 50 * MS}, {0: 0}, 50 * MS, 50 * MS, 0),
    )
    check = InterferenceCheck(Scripted(Reading(0, before), Reading(100 * MS, after)), 7, (0,), (), 0.1)
    times = iter((3, 5))
    monkeypatch.setattr("runner.telemetry.interference.times_stopped", lambda: next(times))
    check.before()
    assert check.after(100 * MS) is None
    assert check.core_share() is None


def test_a_child_that_ended_during_its_block_is_no_stranger_on_its_gpu() -> None:
    with subprocess.Popen(["sleep", "600"]) as child:
        busy = GpuCounters("GPU-1", processes=(child.pid,))
        source = Scripted(Reading(0, gpus=(busy,)), Reading(100 * MS, gpus=(replace(busy, processes=()),)))
        gate = InterferenceCheck(source, 7, (), (), 0.05)
        gate.before()
        child.kill()
    assert gate.after(100 * MS) is None
    # A process that is no child of ours is one.
    source = Scripted(Reading(0, gpus=(replace(busy, processes=(1,)),)), Reading(100 * MS))
    gate = InterferenceCheck(source, 7, (), (), 0.05)
    gate.before()
    interference = gate.after(100 * MS)
    assert interference is not None and interference.cause == "company"


def test_a_source_without_readings_is_soon_read_no_more_and_taints_nothing() -> None:
    source = Scripted()
    gate = InterferenceCheck(source, 7, (), (), 0.05)
    for _ in range(10):
        gate.before()
        assert gate.after(MS) is None
    assert len(source.asked) == 3
    assert gate.facts() == {"telemetry_notes": ["the sampler is dead"]}
    assert gate.offender() is None
    assert InterferenceCheck(None, 7, (), (), 0.05).after(MS) is None


@pytest.mark.parametrize(
    ("step_us", "asked"),
    [
        # 0.4 s, after 50 ms and in samples of 1 ms.
        (10, Measure(40_000, 5_000, 100)),
        (199, Measure(2010, 252, 6)),
        (5_000, Measure(80, 10, 1)),
        # As many as a block has at least, after two that are not timed.
        (600_000, Measure(1, 2, 1)),
    ],
)
def test_a_block_on_cuda_is_long_and_led_in_to(step_us: int, asked: Measure) -> None:
    assert Blocks(TIMING, on_cuda=True).request(step_us * 1000) == asked
    on_cpu = Blocks(TIMING).request(step_us * 1000)
    assert (on_cpu.lead_in, on_cpu.per_sample) == (0, 1)


def test_a_sample_of_processes_that_share_a_gpu_spans_many_of_their_turns() -> None:
    blocks = Blocks(TIMING, on_cuda=True, shared=True)
    assert blocks.request(250_000) == Measure(1600, 200, 200)
    # Longer than many turns, a step is a sample by itself.
    assert blocks.request(60_000_000).per_sample == 1


def test_inputs_of_several_shapes_keep_their_turn_through_the_lead_in() -> None:
    blocks = Blocks(TIMING, on_cuda=True)
    blocks.shapes = 9
    asked = blocks.request(10_000)
    assert asked.per_sample == 1
    assert asked.lead_in % 9 == 0 and asked.lead_in >= 5_000


def test_on_cuda_medians_of_blocks_are_what_rounds_compare() -> None:
    blocks = Blocks(TIMING, on_cuda=True)
    for samples in ((80, 100, 120), (70, 104, 130)):
        blocks.take(Block(samples, MS, 0, sm_clocks_mhz=(1500, 1480)), None)
    facts = blocks.facts()
    assert (facts["block_floors_ns"], facts["block_medians_ns"]) == ([80, 70], [100, 104])
    assert facts["block_sm_clocks_mhz"] == [[1500, 1480]] * 2
    assert dict(blocks.block_latencies) == {0: 100, 1: 104}
    on_cpu = taken(None)
    assert not {"block_medians_ns", "block_sm_clocks_mhz"} & on_cpu.facts().keys()


def test_the_clock_of_a_block_is_held_against_those_before_it() -> None:
    blocks = Blocks(TIMING, on_cuda=True)
    assert blocks.clock_ratio(Block((1,), MS, 0)) is None
    for clock in (1500, 1510, 1490):
        block = Block((1,), MS, 0, sm_clocks_mhz=(clock, clock))
        assert blocks.clock_ratio(block) == pytest.approx(1, abs=0.01)
        blocks.take(block, None)
    assert blocks.clock_ratio(Block((1,), MS, 0, sm_clocks_mhz=(1400, 1400))) == pytest.approx(
        0.933, abs=0.001
    )


def test_the_server_that_shares_a_gpu_is_no_company_but_a_note(tmp_path: Path) -> None:
    server = tmp_path / "nvidia-cuda-mps-server"
    shutil.copy("/bin/sleep", server)
    # No child of ours: its parent has ended.
    started = subprocess.run(["sh", "-c", f"{server} 600 >&- 2>&- & echo $!"], capture_output=True, text=True)
    pid = int(started.stdout)
    try:
        gpu = GpuCounters("GPU-1", processes=(pid,))
        gate = InterferenceCheck(Scripted(Reading(0, gpus=(gpu,)), Reading(MS, gpus=(gpu,))), 7, (), (), 0.05)
        gate.before()
        assert gate.after(MS) is None
    finally:
        os.kill(pid, signal.SIGKILL)
    (note,) = gate.facts()["telemetry_notes"]
    assert note.startswith("NVIDIA's Multi-Process Service shares its GPU")
