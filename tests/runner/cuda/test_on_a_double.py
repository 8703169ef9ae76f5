"""Timing on CUDA, on a stand-in whose clock is known: what is queued in which order, and what it comes to."""

from pathlib import Path
from typing import Any

import pytest

from support.site import run_snippet

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def found() -> Any:
    """What the snippet found."""
    return run_snippet(Path(__file__).with_name("on_a_double.py"))


def test_untimed_steps_lead_in_to_the_same_queue_and_no_event_is_made_within_it(found: Any) -> None:
    timed = ["pyrometer: timed steps", "record", *["step", "record"] * 4, "end of range"]
    clock = ["spin", "record", "spin", "record"]
    queue = ["step", "step", *clock, "step", *timed, *clock, "synchronize"]
    first, second = (block["calls"] for block in found["order"])
    assert first == ["spin"] + ["create"] * 9 + ["synchronize", "ready", *queue]
    # The events of a block are those of the blocks before it.
    assert second == ["synchronize", "ready", *queue]


def test_steps_that_share_a_sample_are_not_timed_with_their_events(found: Any) -> None:
    # An event takes the host 2 us, which a step of 5 us cannot hide once the host is no longer ahead.
    assert found["short"]["each"][-30:] == [7_000] * 30
    assert found["short"]["shared"] == [5_000] * 24


def test_the_host_is_not_ahead_of_timed_steps_that_wait_for_their_launch(found: Any) -> None:
    # While the clock is measured the host queues steps of 3 us, which take 5 to launch.
    assert min(found["ahead"]["not led in to"]) < 3_100
    assert found["ahead"]["led in to"] == [pytest.approx(5_080, abs=1)] * 8


def test_a_block_ends_where_its_events_are_read(found: Any) -> None:
    # 50 steps of 100 us and two measurements of the clock; reading the events would take another 156 us.
    spins, launches = 2 * 800_000, 20_000
    assert found["wall"]["timed"] == 50 * 100_000
    assert found["wall"]["wall"] == pytest.approx(50 * 100_000 + spins, abs=launches)


def test_the_clock_is_that_of_the_timed_steps(found: Any) -> None:
    assert min(found["droop"]["cold"]) > 1900
    assert found["droop"]["led in"] == [1500, 1500]


def test_neither_a_kernels_first_launch_nor_an_empty_queue_makes_a_clock_slow(found: Any) -> None:
    assert found["first clock"] == [1500, 1500]
    assert found["clock of waiting"] == [1500, 1500]


def test_a_ceiling_takes_no_more_products_than_hide_a_launch(found: Any) -> None:
    ceilings = found["ceilings"]
    assert [ceilings[name]["last"] for name in ("short", "long", "longest")] == [20, 2, 1]
    # Ten times two, after 0.2 s: one, since it is not known how long it is, and five times two.
    assert ceilings["long"]["products"] == 10 * 2 + 1 + 5 * 2
    assert ceilings["short"]["tflops"] == pytest.approx(2 * 8192**3 / 1.5e-3 / 1e12, rel=0.01)


def test_the_optimizer_of_a_captured_step_lives_as_long_as_the_step(found: Any) -> None:
    # A graph keeps addresses: memory of a collected optimizer would hold other tensors.
    assert found["captured training"]["kept"] is True
    assert found["captured training"]["falls"], found["captured training"]


def test_a_warm_up_keeps_no_answers(found: Any) -> None:
    assert found["queued answers"] <= 2


def test_events_that_run_backwards_measure_nothing(found: Any) -> None:
    status, reason = found["backwards"]
    assert status == "unsupported"
    assert "confidential computing" in reason


def test_no_clock_is_read_from_events_in_the_wrong_order(found: Any) -> None:
    assert found["unordered clock"] is None


def test_a_warm_step_is_one_of_a_queue(found: Any) -> None:
    assert found["queued"] == {"ns": pytest.approx(5_000, rel=0.01), "waits": 2, "steps": 50_000 // 26}


def test_a_warm_up_waits_for_the_clock(found: Any) -> None:
    steady, falling, cap = (found["warm-ups"][name] for name in ("steady", "falling", "cap"))
    assert (steady["ended"], steady["ns"]) == ("steady", pytest.approx(100_000, rel=0.01))
    # Steps take as long as before, so that only the clock tells. It falls by 50 MHz a window until 0.4 s.
    assert falling["ended"] == "steady" and 0.4 < falling["ran"] < 0.55
    assert steady["ran"] < 0.25 < falling["seconds"]
    assert cap["ended"] == "cap" and 0.2 <= cap["seconds"] < 0.3


def test_a_captured_step_reads_the_input_it_is_given(found: Any) -> None:
    assert found["captured"] == {"follows": True, "changed": True}


def test_launches_are_held_against_the_step_as_it_was_timed(found: Any) -> None:
    replay, long = found["device_time"]["replay"], found["device_time"]["long"]
    # Under the profiler a launch takes five times as long: that is no part of either number.
    assert replay["device_time"] == pytest.approx(0.008)
    assert replay["launch_bound"] == pytest.approx(0.2)
    assert replay["steps"] == 2000
    # Under the profiler the first kernels run at a higher clock than in the timed steps: nothing waited.
    droop = found["device_time"]["droop"]
    assert (droop["device_time"], droop["launch_bound"]) == (pytest.approx(1.0), pytest.approx(0, abs=0.001))
    assert (long["device_time"], long["launch_bound"], long["steps"]) == (pytest.approx(50), 0.0, 10)
    known = {"kernels": [["spin", 1.0, 8.0]], "device_time": pytest.approx(0.008), "steps": 10}
    assert found["device_time"]["not known"] == known


def test_a_rank_takes_as_many_steps_as_the_others_whatever_its_profiler_does(found: Any) -> None:
    known, failed = found["ranks"]["time"]
    assert known["device_time"] == pytest.approx(0.5) and known["steps"] == 100
    reason = "RuntimeError: CUPTI is in use by another process"
    assert failed == {"not_measured": [reason], "steps": 100}
    # Of a step that failed the others have to know.
    assert [each["failed"] for each in found["ranks"]["broken"]] == ["out of order"] * 2


def test_device_time_of_ranks_is_that_of_the_one_that_is_busiest(found: Any) -> None:
    group = found["ranks"]["group"]
    assert group["metrics"] == {"rss_peak": 2.0, "device_time": 3.0, "launch_bound": 0.4}
    # The step of the slower one: all take as many.
    assert group["asked"] == {"step_ns": 5_000_000, "start_ns": 1}


def test_the_warm_up_of_ranks_waits_for_every_clock_and_times_queued_steps(found: Any) -> None:
    assert found["ranks"]["warm-up"] == ["steady", 2_500_000, 3]
    assert found["ranks"]["warm-up without clocks"] == ["steady", 2_500_000, 1]


def test_a_step_of_ranks_is_the_mean_over_shapes_as_their_latency_is(found: Any) -> None:
    assert found["ranks"]["shapes"]["asked"]["step_ns"] == 7_000_000


def test_steps_with_and_without_communication_are_of_the_same_shapes(found: Any) -> None:
    assert found["ranks"]["group"]["turns"] == [[3, 1]] * 2
    # Of two shapes in turn three steps here and three there would not be alike.
    assert found["ranks"]["shapes"]["turns"] == [[4, 2]] * 2


def test_ranks_are_set_against_the_peaks_of_all_their_cards(found: Any) -> None:
    assert found["ranks"]["group"]["peak"] == 200.0


def test_a_process_on_two_cards_has_the_peaks_of_both(found: Any) -> None:
    one = {"cuda_devices": 1, "card_peak_tflops": 989.4, "card_peak_gb_per_second": 3352}
    two = {"cuda_devices": 2, "card_peak_tflops": 1978.8, "card_peak_gb_per_second": 6704}
    assert found["peaks of cards"] == [one, one, two, {"cuda_devices": 2}]


def test_kernels_with_long_names_stay_apart_and_memory_that_is_set_is_one(found: Any) -> None:
    (first, *one), *others = sorted(found["kernel names"])
    assert (first, *one) == ("Memset", 2.0, 4.0)
    assert len({name for name, _, _ in others}) == 2 and {len(name) for name, _, _ in others} == {200}


def test_each_shape_is_looked_at_as_often(found: Any) -> None:
    assert found["device_time"]["shapes"]["steps"] == 32


def test_a_profiler_that_lost_kernels_says_nothing(found: Any) -> None:
    assert found["device_time"]["no kernel"] == {"steps": 0}


def test_a_request_ends_when_its_answer_is_there(found: Any) -> None:
    requests = found["requests"]
    assert requests["calls"] == ["synchronize", "step", "synchronize", "step", "synchronize", "step"]
    # A launch and a millisecond, though the step itself returns after the launch.
    assert requests["request_latency"] == requests["request_latency_p99"] == pytest.approx(1.005)
    assert requests["steps"] == 662


def test_peaks_are_the_allocators_with_what_a_graph_holds_for_its_replay(found: Any) -> None:
    assert found["allocator"] == {
        "cuda_peak_allocated_compile": 340.0,
        "cuda_peak_reserved_compile": 400.0,
        "fragmentation": pytest.approx(0.15),
        "alloc_retries": 2.0,
        "calls": ["reset peaks"],
    }


def test_peaks_of_another_runtime_are_no_instances_either(found: Any) -> None:
    own, others = found["peaks of instances"].values()
    assert others == [] and "cuda_peak_allocated" in own


def test_peaks_of_two_devices_are_those_of_the_one_that_needs_most(found: Any) -> None:
    assert found["allocators"] == {
        "cuda_peak_allocated": 500.0,
        "cuda_peak_reserved": 600.0,
        "fragmentation": pytest.approx(0.5),
        "alloc_retries": 3.0,
        "reset": [0, 1],
    }


def test_peaks_of_cudas_own_allocator_are_without_a_snapshot(found: Any) -> None:
    assert found["allocator of CUDA"] == {"cuda_peak_allocated": 300.0, "cuda_peak_reserved": 400.0}


def test_a_failing_final_metric_costs_no_case_its_outcome(found: Any) -> None:
    reason = "RuntimeError: CUPTI is in use by another process"
    assert found["guards"] == {"answers": [{"a": 1.0}, {}, "report() returns nan"], "facts": [reason]}
    assert found["last"]["facts"] == ["OutOfMemoryError: CUDA out of memory. Tried to allocate 256 MiB"]


def test_every_library_says_in_its_own_words_that_memory_ran_out(found: Any) -> None:
    assert found["oom"] == [True] * 5
    assert found["no oom"] is False


def test_the_log_says_what_held_the_memory_that_ran_out(found: Any) -> None:
    assert found["logged"] == ["allocated 300 MiB\n", ""]


def test_graphs_that_a_case_wants_are_counted_from_zero(found: Any) -> None:
    assert found["skips"] == [None, 0]


def test_a_gpu_that_failed_is_no_crash_of_the_case(found: Any) -> None:
    lost, busy, crashed = ["lost", True], ["contended", False], ["crashed", False]
    assert found["errors"] == [lost, lost, lost, lost, busy, crashed, crashed]


def test_a_rank_whose_gpu_failed_ends_the_session_where_that_is_this_machines(found: Any) -> None:
    assert found["errors of ranks"] == [["lost", True], ["lost", False], ["crashed", False]]


def test_a_reference_is_exact_by_whichever_interface_a_case_set_tf32(found: Any) -> None:
    assert found["newer interface"] in (["ieee", "tf32"], None)


def test_a_rank_waits_for_its_own_gpu(found: Any) -> None:
    assert found["waited for"] == [["cuda:0"], ["cuda:1"]]
