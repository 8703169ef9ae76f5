"""From blocks to the metrics of a replicate: known blocks give known values."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.execution.metrics import disturbance, percentile, replicate_metrics, sustained_throughput
from runner.worker.messages import Block, Finished, Ready, Window

READY = Ready(first_call_ns=5_000_000, step_ns=2_000_000, facts={"items": 8, "flops": 4e9})
BLOCKS = [
    Block((2_000_000, 1_000_000), 3_000_000, 0, minor_faults=6, involuntary_switches=1, cpu_ns=3_000_000),
    Block((3_000_000, 4_000_000, 10_000_000), 17_000_000, 0, minor_faults=4, cpu_ns=7_000_000),
]


@given(st.lists(st.integers(0, 2**50), min_size=1, max_size=50), st.floats(0, 1))
def test_percentiles_are_numpys(samples: list[int], share: float) -> None:
    assert percentile(sorted(samples), share) == pytest.approx(
        np.quantile(samples, share), rel=1e-9, abs=1e-6
    )


def test_known_blocks_give_known_values() -> None:
    finished, report = Finished({"rss_peak": 100.0}), {"peak_tree_mib": 250.0}
    metrics = replicate_metrics(READY, BLOCKS, finished, report, "", ready_seconds=2.5)
    assert metrics == pytest.approx(
        {
            "latency": 3.0,
            "latency_min": 1.0,
            "latency_floor": 2.0,
            "throughput": 8 / 0.003,
            "first_call": 0.005,
            "cold_start": 2.5,
            "model_tflops": 4e9 / 0.003 / 1e12,
            "rss_peak": 250.0,
        }
    )


@pytest.mark.parametrize(
    ("cache", "wanted"),
    [
        ("", {"first_call": 0.005}),
        ("cold", {"first_call": 0.005, "compile_cold": 0.002}),
        ("warm", {"compile_warm": 0.002}),
    ],
)
def test_the_first_call_and_the_compilation_follow_the_cache(cache: str, wanted: dict[str, float]) -> None:
    metrics = replicate_metrics(READY, BLOCKS, Finished(), {}, cache)
    found = {name: metrics[name] for name in metrics if name.startswith(("first", "compile"))}
    assert found == pytest.approx(wanted)


@pytest.mark.parametrize(("cache", "reported"), [("", True), ("cold", True), ("warm", False)])
def test_a_start_that_found_its_code_compiled_is_no_cold_one(cache: str, reported: bool) -> None:
    metrics = replicate_metrics(READY, BLOCKS, Finished(), {}, cache, ready_seconds=2.5)
    assert metrics.get("cold_start") == (2.5 if reported else None)


def test_instances_that_did_not_report_have_no_throughput() -> None:
    """One is as slow as all seem by the slowest: the sum of what each does in its own time is larger."""
    silent = replicate_metrics(READY, BLOCKS, Finished(), {}, "", instances=2)
    assert silent["latency"] == 3.0 and not {"throughput", "model_tflops"} & silent.keys()
    reported = replicate_metrics(READY, BLOCKS, Finished({"throughput": 4000.0}), {}, "", instances=2)
    assert reported["throughput"] == 4000.0
    assert reported["model_tflops"] == pytest.approx(4e9 / 8 * 4000 / 1e12)


def test_a_percentile_of_requests_needs_as_many() -> None:
    def published(items: int, **facts: object) -> dict[str, float]:
        finished = Finished({"queue_latency": 1.0, "queue_latency_p99": 9.0})
        block = Block((1_000_000,) * 10, 10_000_000, 0)
        return replicate_metrics(Ready(1, 1, facts={"items": items, **facts}), [block], finished, {}, "")

    few, enough = published(66), published(67)
    assert few["queue_latency"] == enough["queue_latency"] == 1.0
    assert "queue_latency_p99" not in few and enough["queue_latency_p99"] == 9.0
    # Two instances have 66 requests each in a step of both.
    two = [{"pid": 1}, {"pid": 2}]
    assert "queue_latency_p99" not in published(132, members=two)
    assert published(134, members=two)["queue_latency_p99"] == 9.0


@pytest.mark.parametrize(
    ("name", "share"), [("latency_p10", 0.1), ("latency_p90", 0.9), ("latency_p99", 0.99)]
)
def test_a_percentile_needs_the_samples_that_mlperf_asks_for(name: str, share: float) -> None:
    def published(samples: int) -> dict[str, float]:
        block = Block(tuple(range(1_000_000, 1_000_000 + samples)), 1, 0)
        return replicate_metrics(READY, [block], Finished(), {}, "")

    beyond = min(share, 1 - share)
    # The fewest of which at most one lies beyond with a chance of no more than 1 %.
    enough = next(
        n
        for n in range(1, 1000)
        if math.fsum(math.comb(n, k) * beyond**k * (1 - beyond) ** (n - k) for k in (0, 1)) <= 0.01
    )
    assert name not in published(enough - 1)
    samples = np.arange(1_000_000, 1_000_000 + enough)
    assert published(enough)[name] == pytest.approx(np.quantile(samples, share) / 1e6)


def test_what_was_not_counted_is_absent_not_zero() -> None:
    ready = Ready(first_call_ns=1, step_ns=1, facts={"items": 1, "flops": None})
    metrics = replicate_metrics(ready, BLOCKS, Finished(), {"peak_tree_mib": 250.0}, "warm")
    assert "model_tflops" not in metrics
    assert "rss_peak" not in metrics
    # A step that is slower than the first call compiled nothing.
    assert metrics["compile_warm"] == 0.0


def test_disturbance_counts_per_iteration_and_per_second() -> None:
    assert disturbance(BLOCKS) == pytest.approx(
        {
            "minor_faults_per_iteration": 2.0,
            "involuntary_switches_per_second": 50.0,
            "cpu_share": 0.5,
            "iterations": 5.0,
            "blocks": 2.0,
        }
    )


@pytest.mark.parametrize(("cache", "kept"), [("", True), ("cold", True), ("warm", False)])
def test_a_peak_that_includes_compiling_is_never_taken_from_a_warm_cache(cache: str, kept: bool) -> None:
    finished = Finished({"rss_peak": 100.0, "rss_peak_steady": 90.0, "cuda_peak_allocated_compile": 7.0})
    metrics = replicate_metrics(READY, BLOCKS, finished, {"peak_tree_mib": 250.0}, cache)
    assert metrics["rss_peak_steady"] == 90.0
    assert ("rss_peak" in metrics, "cuda_peak_allocated_compile" in metrics) == (kept, kept)


def varied(times: list[int], *, every: int) -> list[Block]:
    """Blocks of `every` steps that take inputs of three shapes in turn, which last `times` nanoseconds."""
    samples = [times[number % len(times)] for number in range(30)]
    return [Block(tuple(samples[at : at + every]), 1, 0) for at in range(0, 30, every)]


@pytest.mark.parametrize("every", [1, 2, 10])
def test_shapes_weigh_alike_however_many_a_block_holds(every: int) -> None:
    ready = Ready(1, 1, facts={"items": 6, "shapes": 3})
    blocks = varied([1_000_000, 2_000_000, 30_000_000], every=every)
    metrics = replicate_metrics(ready, blocks, Finished(), {}, "")
    assert metrics["latency_floor"] == metrics["latency"] == pytest.approx(11.0)
    assert metrics["throughput"] == pytest.approx(6 / 0.011)


def test_there_is_no_mean_over_a_part_of_the_shapes() -> None:
    ready = Ready(1_000_000_000, 1, facts={"items": 6, "shapes": 3, "flops": 1e9, "cpus_in_use": 2})
    blocks = varied([1_000_000, 2_000_000, 30_000_000], every=1)
    report = Finished({"rss_peak": 100.0, "ceiling_tflops": 4.0})
    following = {"latency", "latency_floor", "throughput", "throughput_per_core", "compile_cold"}
    following |= {"model_tflops", "peak_share"}
    whole = replicate_metrics(ready, blocks[:3], report, {}, "cold")
    part = replicate_metrics(ready, blocks[:3], report, {}, "cold", None, {1})
    assert following <= whole.keys()
    assert whole.keys() - part.keys() == following


def test_the_ceiling_is_what_tflops_are_held_against() -> None:
    finished = Finished({"ceiling_tflops": 4.0})
    metrics = replicate_metrics(READY, BLOCKS, finished, {}, "")
    assert metrics["peak_share"] == pytest.approx(metrics["model_tflops"] / 4.0)
    assert "peak_share" not in replicate_metrics(READY, BLOCKS, Finished(), {}, "")


def test_tflops_and_their_share_of_the_ceiling_follow_the_throughput() -> None:
    # Two instances: the slower needs 3 ms for its 4 items and sets the latency, the faster 1 ms.
    finished = Finished({"throughput": 4 / 0.003 + 4 / 0.001, "ceiling_tflops": 10.0})
    metrics = replicate_metrics(READY, BLOCKS, finished, {}, "")
    assert metrics["latency"] == 3.0
    assert metrics["model_tflops"] == pytest.approx((2e9 / 0.003 + 2e9 / 0.001) / 1e12)
    assert metrics["peak_share"] == pytest.approx(metrics["model_tflops"] / 10.0)


def cuda_block(*us: int, per_sample: int = 1, clocks: tuple[int, ...] = ()) -> Block:
    """A block of samples of so many microseconds."""
    return Block(tuple(1000 * one for one in us), 1, 0, per_sample=per_sample, sm_clocks_mhz=clocks)


def test_on_cuda_the_middle_of_blocks_is_compared_and_the_fastest_is_kept() -> None:
    ready = Ready(1_000_000, 1, facts={"items": 1})
    blocks = [cuda_block(80, 100, 101), cuda_block(70, 102, 103), cuda_block(75, 104, 900)]
    on_cuda = replicate_metrics(ready, blocks, Finished(), {}, "", on_cuda=True)
    assert (on_cuda["latency_floor"], on_cuda["latency_burst"]) == (0.102, 0.075)
    assert on_cuda["latency_min"] == 0.070
    on_cpu = replicate_metrics(ready, blocks, Finished(), {}, "")
    assert on_cpu["latency_floor"] == 0.075 and "latency_burst" not in on_cpu


def test_a_mean_of_several_iterations_is_no_percentile_of_one() -> None:
    ready, samples = Ready(1, 1, facts={"items": 1}), range(1000, 2000)
    whole, means = (cuda_block(*samples, per_sample=k) for k in (1, 20))
    assert "latency_p99" in replicate_metrics(ready, [whole], Finished(), {}, "", on_cuda=True)
    found = replicate_metrics(ready, [means], Finished(), {}, "", on_cuda=True)
    assert not {"latency_min", "latency_p10", "latency_p90", "latency_p99"} & found.keys()
    assert found["latency"] == 1.4995
    assert disturbance([means])["iterations"] == 20_000


def test_a_step_in_cycles_tells_a_slow_clock_from_a_slow_step() -> None:
    ready = Ready(1, 1, facts={"items": 1})
    fast = [cuda_block(100, 100, clocks=(1980, 1980))] * 3
    slow = [cuda_block(132, 132, clocks=(1980, 1500))] * 3
    boosted, drooped = (
        replicate_metrics(ready, one, Finished(), {}, "", on_cuda=True) for one in (fast, slow)
    )
    assert (boosted["timed_sm_clock"], drooped["timed_sm_clock"]) == (1980, 1500)
    assert boosted["step_cycles"] == drooped["step_cycles"] == pytest.approx(198)
    unknown = replicate_metrics(ready, [cuda_block(100)], Finished(), {}, "", on_cuda=True)
    assert not {"timed_sm_clock", "step_cycles"} & unknown.keys()
    # A block that does not count has no say.
    mixed = replicate_metrics(ready, [fast[0], slow[0]], Finished(), {}, "", None, {1}, on_cuda=True)
    assert mixed["timed_sm_clock"] == 1980


def test_sustained_throughput_is_that_of_the_whole_window() -> None:
    assert sustained_throughput(Window(0, 4_000_000_000, 200), 8) == {"sustained_throughput": 400.0}
    assert sustained_throughput(Window(5, 5, 0), 8) == {}
