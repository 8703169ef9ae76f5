"""Whether a block counts: counters of which one knows what happened, judged."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.telemetry.interference import Interference, find_interference, notes_on_gpu
from runner.telemetry.telemetry_interface import GpuCounters, HostCounters, Reading

MS = 1_000_000
WALL = 100 * MS
QUIET = HostCounters({0: 0, 1: 0}, {0: 0, 1: 0}, tree_ns=0, delay_ns=0, ours_ns=0)
GPU = GpuCounters("GPU-1", {"hw_thermal": 0, "power": 0}, 0, 0, (), ())


def judged(
    cpus: tuple[int, ...] = (1,),
    limit: float = 0.05,
    *,
    busy: Mapping[int, int] | None = None,
    steal: Mapping[int, int] | None = None,
    tree: int = 100,
    delay: int | None = 0,
    ours: int = 0,
    own_cpus: tuple[int, ...] = (),
    wall: int = WALL,
) -> Interference | None:
    """What becomes of a block in which that much (in milliseconds) was counted."""
    after = HostCounters(
        {0: 0, 1: 0} | {cpu: ms * MS for cpu, ms in (busy or {}).items()},
        {0: 0, 1: 0} | {cpu: ms * MS for cpu, ms in (steal or {}).items()},
        tree * MS,
        None if delay is None else delay * MS,
        ours * MS,
    )
    return find_interference(Reading(0, QUIET), Reading(wall, after), WALL, cpus, limit, own_cpus=own_cpus)


def test_a_block_of_its_own_is_clean() -> None:
    assert judged(busy={1: 100}) is None
    # The counters of a CPU lag by a tick.
    assert judged(busy={1: 110}, delay=1) is None


def test_who_waits_while_others_use_its_cpu_is_contended() -> None:
    interference = judged(busy={1: 100}, tree=52, delay=48)
    assert interference is not None
    assert (interference.status, interference.cause, interference.share) == (
        "contended",
        "cpu",
        pytest.approx(0.48),
    )
    assert interference.reason == "it waited 48 % of the time for a CPU, of which others used 48 %"


def test_a_case_of_more_threads_than_cpus_waits_for_itself() -> None:
    assert judged(busy={1: 100}, tree=100, delay=300) is None
    assert judged(busy={1: 110}, tree=100, delay=8) is not None
    # Unless another process is there for certain.
    assert judged(busy={1: 100}, tree=65, delay=300) is not None


def test_in_a_long_block_what_is_certain_may_still_be_too_little() -> None:
    # Ten seconds of four threads on one CPU, and 100 ms of all others.
    assert judged(busy={1: 10_000}, tree=9_900, delay=30_000, wall=100 * WALL) is None
    assert judged(busy={1: 10_000}, tree=9_400, delay=30_000, wall=100 * WALL) is not None


def test_others_on_a_cpu_that_it_does_not_want_do_not_matter() -> None:
    assert judged((0, 1), busy={0: 100, 1: 100}, tree=100, delay=0) is None
    assert judged((1,), busy={0: 100, 1: 100}, tree=100, delay=0) is None


def test_without_delay_counters_only_a_share_beyond_error_counts() -> None:
    assert judged(busy={1: 100}, tree=80, delay=None) is None
    assert judged(busy={1: 100}, tree=60, delay=None) is not None
    # Over sixteen CPUs the errors of counting add up.
    many = tuple(range(16))
    assert judged(many, busy=dict.fromkeys(many, 100), tree=1500, delay=None) is None
    assert judged(many, busy=dict.fromkeys(many, 100), tree=1400, delay=None) is None


def test_what_measures_is_none_of_the_others() -> None:
    assert judged(busy={1: 100}, tree=60, ours=40, delay=40) is None
    # On CPUs of its own it leaves the measured ones alone.
    assert judged(busy={1: 100}, tree=60, ours=40, delay=40, own_cpus=(0,)) is not None
    assert judged((), busy={0: 0, 1: 100}, tree=60, ours=40, delay=40, own_cpus=(0,)) is None


def test_a_hypervisor_that_takes_a_cpu_is_others() -> None:
    interference = judged((0, 1), busy={0: 60, 1: 100}, steal={0: 40}, tree=160)
    assert interference is not None
    assert (interference.cause, interference.reason) == ("hypervisor", "the hypervisor took 40 % of CPU 0")
    # A tick is what its counter may be off by.
    assert judged(steal={1: 10}) is None
    assert judged((1,), steal={0: 40}) is None


def test_shares_are_of_all_the_time_that_was_counted() -> None:
    # 48 ms of waiting between readings a second apart.
    assert judged(busy={1: 1000}, tree=952, delay=48, wall=10 * WALL) is None


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000), st.none() | st.integers(0, 5000))
def test_a_limit_of_one_never_calls_anything_contended(
    busy: int, steal: int, tree: int, delay: int | None
) -> None:
    assert judged(limit=1.0, busy={1: busy}, steal={1: steal}, tree=tree, delay=delay) is None
    company = replace(GPU, processes=(4242,))
    assert find_interference(Reading(0), Reading(1, gpus=(company,)), WALL, (), 1.0) is None


counters = st.integers(0, 10**12)
readings = st.builds(
    Reading,
    counters,
    st.none()
    | st.builds(
        HostCounters,
        st.dictionaries(st.integers(0, 3), counters, max_size=3),
        st.dictionaries(st.integers(0, 3), counters, max_size=3),
        counters,
        st.none() | counters,
        counters,
    ),
    st.tuples()
    | st.tuples(
        st.builds(
            GpuCounters,
            st.sampled_from(["GPU-1", "GPU-2"]),
            st.dictionaries(st.sampled_from(["hw_thermal", "board", "power"]), counters),
            st.none() | counters,
            st.none() | counters,
        )
    ),
)


@given(readings, readings, st.lists(st.integers(0, 3), unique=True))
def test_whatever_was_read_is_judged_without_an_exception(
    before: Reading, after: Reading, cpus: list[int]
) -> None:
    interference = find_interference(before, after, WALL, tuple(cpus), 0.05)
    assert interference is None or (interference.share or 1.0) > 0.0


@given(readings)
def test_between_two_equal_readings_nothing_happened(reading: Reading) -> None:
    assert find_interference(reading, reading, WALL, (), 0.05) is None


@pytest.mark.parametrize("field", ["busy_ns", "tree_ns", "ours_ns", "delay_ns"])
def test_a_counter_that_went_backwards_says_nothing(field: str) -> None:
    full = HostCounters({1: 100 * MS}, {1: 0}, 52 * MS, 48 * MS, 0)
    before = HostCounters({1: 0}, {1: 0}, 0, 0, 0)
    assert find_interference(Reading(0, before), Reading(WALL, full), WALL, (1,), 0.05)
    larger = {1: 10**12} if field == "busy_ns" else 10**12
    earlier = replace(before, **{field: larger})
    assert find_interference(Reading(0, earlier), Reading(WALL, full), WALL, (1,), 0.05) is None


def on_gpu(after: GpuCounters, own: tuple[int, ...] = (), before: GpuCounters = GPU) -> Interference | None:
    """The verdict on a block around which a GPU reported that."""
    first, second = Reading(0, gpus=(before,)), Reading(WALL, gpus=(after,))
    return find_interference(first, second, WALL, (), 0.05, own=own)


def test_a_process_on_its_gpu_that_is_not_ours_is_company() -> None:
    interference = on_gpu(replace(GPU, processes=(10, 4242)), own=(10, 11))
    assert interference is not None
    assert (interference.status, interference.cause, interference.share) == ("contended", "company", None)
    assert interference.reason == "another process computes on its GPU (pid 4242)"
    assert on_gpu(replace(GPU, processes=(10,)), own=(10, 11)) is None
    assert on_gpu(replace(GPU, processes=None)) is None


@pytest.mark.parametrize("reason", ["hw_thermal", "hw_power_brake", "reliability", "board"])
def test_a_gpu_that_held_its_clock_down_is_throttled(reason: str) -> None:
    before = replace(GPU, throttled_ns={reason: 5})
    interference = on_gpu(replace(GPU, throttled_ns={reason: 5 + 12 * MS}), before=before)
    assert interference is not None
    assert (interference.status, interference.share) == ("throttled", pytest.approx(0.12))
    assert interference.reason == f"its GPU held the clock down for 12 % of the time ({reason})"
    assert on_gpu(replace(GPU, throttled_ns={reason: 5 + MS}), before=before) is None
    assert on_gpu(replace(GPU, throttled_ns={reason: 0}), before=before) is None


@pytest.mark.parametrize("reason", ["power", "thermal", "sw_thermal"])
def test_how_a_gpu_runs_at_full_load_is_no_throttling(reason: str) -> None:
    assert (
        on_gpu(replace(GPU, throttled_ns={reason: WALL}), before=replace(GPU, throttled_ns={reason: 0}))
        is None
    )


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        (replace(GPU, ecc_uncorrected=1), "its GPU counted an ECC error that it could not correct"),
        (replace(GPU, xids=(48, 79)), "its GPU reported Xid 48, 79"),
        (replace(GPU, pcie_replays=1), "its GPU had to repeat transfers over PCIe"),
    ],
)
def test_an_error_of_the_gpu_taints(after: GpuCounters, reason: str) -> None:
    interference = on_gpu(after)
    assert interference is not None
    assert (interference.status, interference.reason) == ("throttled", reason)
    assert on_gpu(replace(after, uuid="GPU-2")) is None


def test_a_process_that_only_has_memory_on_its_gpu_takes_no_time() -> None:
    idle = replace(GPU, processes=(10, 4242), computing=(10,))
    assert on_gpu(idle, own=(10, 11)) is None
    busy = on_gpu(replace(idle, computing=(10, 4242)), own=(10, 11))
    assert busy is not None and busy.reason == "another process computes on its GPU (pid 4242)"
    first, second = Reading(0, gpus=(GPU,)), Reading(WALL, gpus=(idle,))
    assert notes_on_gpu(first, second, (10, 11)) == ["another process has memory on its GPU (pid 4242)"]


def test_processes_that_are_not_known_are_a_note() -> None:
    known, unknown = (Reading(WALL, gpus=(replace(GPU, processes=pids),)) for pids in ((), None))
    assert notes_on_gpu(known, known, ()) == []
    (note,) = notes_on_gpu(unknown, unknown, ())
    assert "not known" in note


@pytest.mark.parametrize("reason", ["reliability", "board"])
@pytest.mark.parametrize(("ratio", "counts"), [(1.0, True), (0.99, True), (0.97, False), (None, False)])
def test_a_limit_of_the_voltage_matters_where_the_clock_fell(
    reason: str, ratio: float | None, counts: bool
) -> None:
    # A gaming card at full boost is at its voltage limit all the time.
    before = Reading(0, gpus=(replace(GPU, throttled_ns={reason: 0}),))
    after = Reading(WALL, gpus=(replace(GPU, throttled_ns={reason: WALL}),))
    found = find_interference(before, after, WALL, (), 0.05, clock_ratio=ratio)
    assert (found is None) == counts
    assert notes_on_gpu(before, after, ()) == [
        f"its GPU was at a limit ({reason}), and its clock did not fall"
    ]
    # Heat is no such limit.
    hot = Reading(WALL, gpus=(replace(GPU, throttled_ns={"hw_thermal": WALL}),))
    cold = Reading(0, gpus=(replace(GPU, throttled_ns={"hw_thermal": 0}),))
    assert find_interference(cold, hot, WALL, (), 0.05, clock_ratio=1.0) is not None
