"""A gain is a ratio of pairs from one session: by hand, by its properties, and where there is none, why."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.speedups import Gain, compare, gains
from records.outcomes import Outcome
from reports.text.verdict_text import refusal
from support.builders.run_records import FIRST_NIGHT, an_environment, an_outcome

EAGER = "mlp/infer/batch=8/eager"
COMPILED = "mlp/infer/batch=8/compile=default"
milliseconds = st.floats(min_value=1e-4, max_value=1e5)


@dataclass(frozen=True)
class Base:
    """What a case is set against."""

    kind: str = "speed-up"
    cases: Sequence[str] = (EAGER,)
    ranks: int = 1
    estimator: str = "latency_floor"


def processes(case: str, *floors: float, items: object = 8, **changes: Any) -> list[Outcome]:
    """One replicate per min-based latency, in ms; replicates of one number are alive together."""
    return [
        an_outcome(
            case,
            replicate=number,
            metrics={"latency_floor": floor, "latency": floor * 1.5},
            facts={"items": items},
            started_at=FIRST_NIGHT + timedelta(minutes=number),
            **changes,
        )
        for number, floor in enumerate(floors)
    ]


def speed_up(case: Sequence[Outcome], base: Sequence[Outcome]) -> Gain:
    return compare(Base(), case, base, EAGER)


def test_pairs_by_hand() -> None:
    gain = speed_up(processes(COMPILED, 1.0, 2.0, 4.0), processes(EAGER, 2.0, 5.0, 8.0))
    # The ratios of the pairs are 2, 2.5 and 2; Student's t of two degrees of freedom at 97.5 % is 4.3027.
    logs = [math.log(2.0), math.log(2.5), math.log(2.0)]
    half = 4.302653 * statistics.stdev(logs) / math.sqrt(3)
    assert gain.ratio == pytest.approx(2.0)
    assert gain.low == pytest.approx(math.exp(statistics.fmean(logs) - half), rel=1e-6)
    assert gain.high == pytest.approx(math.exp(statistics.fmean(logs) + half), rel=1e-6)
    assert (gain.n, gain.left_out, gain.reason, gain.metric) == (3, 0, None, "latency_floor")
    assert (gain.kind, gain.case, gain.against) == ("speed-up", COMPILED, EAGER)


@given(
    st.lists(
        # Whole numbers, whose unlike ratios are far enough apart for scipy to take a variance.
        st.tuples(st.integers(1, 10_000), st.integers(1, 10_000)),
        min_size=2,
        max_size=8,
        unique_by=lambda pair: pair[0] / pair[1],
    )
)
def test_the_interval_is_students_for_paired_logarithms(pairs: list[tuple[int, int]]) -> None:
    # Here: it takes a second, and every process of the tests imports this file.
    from scipy import stats  # pyright: ignore[reportMissingTypeStubs]

    gain = speed_up(
        processes(COMPILED, *(own for own, _ in pairs)), processes(EAGER, *(its for _, its in pairs))
    )
    case, base = ([math.log(pair[side]) for pair in pairs] for side in (0, 1))
    interval = stats.ttest_rel(base, case).confidence_interval(0.95)
    assert gain.ratio and gain.low and gain.high
    assert gain.low <= gain.ratio <= gain.high
    # The interval is only ever widened, to hold the median.
    point = math.log(gain.ratio)
    assert math.log(gain.low) == pytest.approx(min(interval.low, point), rel=1e-6, abs=1e-6)
    assert math.log(gain.high) == pytest.approx(max(interval.high, point), rel=1e-6, abs=1e-6)


@given(st.lists(milliseconds, min_size=1, max_size=6), st.floats(min_value=0.1, max_value=10))
def test_drift_that_hits_both_sides_alike_is_not_in_the_ratio(drift: list[float], faster: float) -> None:
    gain = speed_up(processes(COMPILED, *(d / faster for d in drift)), processes(EAGER, *drift))
    assert gain.ratio == pytest.approx(faster)
    if len(drift) > 1:
        assert gain.low == pytest.approx(faster) and gain.high == pytest.approx(faster)


def test_against_itself_there_is_neither_gain_nor_loss() -> None:
    gain = speed_up(processes(COMPILED, 3.0, 4.0), processes(EAGER, 3.0, 4.0))
    assert (gain.ratio, gain.low, gain.high) == (1.0, 1.0, 1.0)


def test_one_pair_has_a_ratio_and_no_interval() -> None:
    gain = speed_up(processes(COMPILED, 1.0), processes(EAGER, 2.0))
    assert (gain.ratio, gain.low, gain.high, gain.n) == (2.0, None, None, 1)


def test_time_is_counted_per_item() -> None:
    gain = speed_up(processes(COMPILED, 2.0, items=16), processes(EAGER, 2.0, items=8))
    assert gain.ratio == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("items", "step", "efficiency"),
    [
        # Weak: each of four ranks has its own eight items, and t1/tN is 10/12.5.
        (32, 12.5, 0.8),
        # Strong: eight items are divided by four, and t1/(N tN) is 10/(4 x 3.125).
        (8, 3.125, 0.8),
    ],
)
def test_weak_and_strong_scaling_by_hand(items: int, step: float, efficiency: float) -> None:
    against = Base("efficiency", ("one rank",), ranks=4)
    gain = compare(
        against,
        processes("four ranks", step, step, items=items),
        processes("one rank", 10.0, 10.0),
        "one rank",
    )
    assert gain.ratio == pytest.approx(efficiency)
    assert (gain.low, gain.high) == (pytest.approx(efficiency), pytest.approx(efficiency))


def test_processes_without_a_common_step_are_compared_by_their_throughput() -> None:
    several = [
        replace(one, metrics={"throughput": 300.0, "latency_floor": 1.0}, facts={})
        for one in processes(COMPILED, 1.0, 1.0)
    ]
    single = [
        replace(one, metrics={"throughput": 200.0, "latency_floor": 9.0})
        for one in processes(EAGER, 1.0, 1.0)
    ]
    gain = compare(Base(estimator="throughput"), several, single, EAGER)
    assert (gain.ratio, gain.metric) == (1.5, "throughput")


@pytest.mark.parametrize(
    ("kind", "own", "its", "ratio", "metric"),
    [
        ("memory", {"rss_peak_steady": 300.0}, {"rss_peak_steady": 400.0}, 0.75, "rss_peak_steady"),
        (
            "memory",
            {"rss_peak_steady": 300.0, "cuda_peak_allocated": 50.0},
            {"rss_peak_steady": 400.0, "cuda_peak_allocated": 200.0},
            0.25,
            "cuda_peak_allocated",
        ),
        ("size", {"model_size": 25.0}, {"model_size": 100.0}, 0.25, "model_size"),
    ],
)
def test_memory_and_size_are_shares_of_the_baselines(
    kind: str, own: dict[str, float], its: dict[str, float], ratio: float, metric: str
) -> None:
    case = [replace(one, metrics=own) for one in processes(COMPILED, 1.0)]
    base = [replace(one, metrics=its) for one in processes(EAGER, 1.0)]
    gain = compare(Base(kind), case, base, EAGER)
    assert (gain.ratio, gain.metric) == (ratio, metric)


def test_a_pair_of_which_one_did_not_end_well_is_left_out_and_counted() -> None:
    case, base = processes(COMPILED, 1.0, 1.0, 1.0), processes(EAGER, 2.0, 2.0, 2.0)
    case[1] = replace(case[1], status="crashed", metrics={})
    gain = speed_up(case, base[:2])
    assert (gain.ratio, gain.n, gain.left_out) == (2.0, 1, 2)


def test_what_was_measured_after_a_resume_is_no_partner() -> None:
    case, base = processes(COMPILED, 1.0, 1.0), processes(EAGER, 2.0, 3.0)
    base[1] = replace(base[1], started_at=base[1].started_at + timedelta(hours=1))
    gain = speed_up(case, base)
    assert (gain.ratio, gain.n, gain.left_out) == (2.0, 1, 1)
    gain = speed_up(case[1:], base[1:])
    assert (gain.ratio, refusal(gain.reason)) == (
        None,
        "not comparable: the two were not measured in one session",
    )


@pytest.mark.parametrize("status", ["wrong", "not_compiled"])
@pytest.mark.parametrize("side", ["case", "base"])
def test_a_wrong_answer_is_never_a_gain(status: str, side: str) -> None:
    sides = {"case": processes(COMPILED, 1.0, 1.0), "base": processes(EAGER, 2.0, 2.0)}
    sides[side][0] = replace(sides[side][0], status=status)
    gain = speed_up(sides["case"], sides["base"])
    whose = " of the baseline" if side == "base" else ""
    assert (gain.ratio, gain.n) == (None, 0)
    assert refusal(gain.reason) == f"1 of 2 replicates{whose} ended {status}"


@pytest.mark.parametrize(
    ("case", "base", "reason"),
    [
        (processes(COMPILED, 1.0), [], "the baseline was not measured"),
        (processes(COMPILED, 1.0, status="oom"), processes(EAGER, 1.0), "no pair of replicates is ok"),
        (processes(COMPILED, 1.0), processes(EAGER, 1.0, 1.0)[1:], "no pair of replicates is ok"),
        (
            processes(COMPILED, 1.0, items=None),
            processes(EAGER, 1.0),
            "not comparable: Latency (min-based) is not known on both sides",
        ),
        (
            processes(COMPILED, math.inf),
            processes(EAGER, 1.0),
            "not comparable: Latency (min-based) is not known on both sides",
        ),
    ],
)
def test_where_there_is_no_gain_a_reason_says_why(
    case: list[Outcome], base: list[Outcome], reason: str
) -> None:
    gain = speed_up(case, base)
    assert (gain.ratio, gain.low, gain.high, gain.n) == (None, None, None, 0)
    assert refusal(gain.reason) == reason


def test_a_run_has_the_gains_of_each_case_in_each_environment() -> None:
    old, new = an_environment("2.12.0"), an_environment("2.13.0")
    outcomes = [
        *processes(COMPILED, 1.0, environment=new),
        *processes(EAGER, 3.0, environment=new),
        *processes(COMPILED, 1.0, environment=old),
        *processes(EAGER, 2.0, environment=old),
    ]
    sized = [replace(one, metrics={**one.metrics, "model_size": 4.0}) for one in outcomes[:2]]

    def baselines(case: str) -> list[Base]:
        return [Base(), Base("memory"), Base("size", ("never measured", EAGER))] if case == COMPILED else []

    found = gains([*sized, *outcomes[2:]], baselines)
    assert list(found) == [(COMPILED, new.fingerprint), (COMPILED, old.fingerprint)]
    assert [[(g.kind, g.ratio, g.against) for g in each] for each in found.values()] == [
        [("speed-up", 3.0, EAGER), ("size", 1.0, EAGER)],
        [("speed-up", 2.0, EAGER)],
    ]
    (alone,) = gains(processes(COMPILED, 1.0), baselines).values()
    assert [(g.kind, g.against, refusal(g.reason)) for g in alone] == [
        ("speed-up", EAGER, "the baseline was not measured")
    ]


def test_a_pair_with_a_disturbed_side_is_counted() -> None:
    case, base = processes(COMPILED, 1.0, 1.0), processes(EAGER, 2.0, 2.0)
    busy = replace(base[1], facts={**base[1].facts, "device": "cpu", "cpu_share": 0.4})
    assert speed_up(case, base).disturbed == 0
    assert speed_up(case, [base[0], busy]).disturbed == 1
    # Of pairs that count: one without a ratio is left out, whatever disturbed it.
    unknown = replace(busy, metrics={})
    found = speed_up(case, [base[0], unknown])
    assert (found.n, found.left_out, found.disturbed) == (1, 1, 0)


def test_who_left_its_cpus_has_no_gain() -> None:
    case, base = processes(COMPILED, 1.0, 1.0), processes(EAGER, 2.0, 2.0)
    gone = replace(case[1], facts={**case[1].facts, "launch": {"held": False}})
    assert (
        refusal(speed_up([case[0], gone], base).reason) == "1 of 2 replicates left the CPUs they were given"
    )
    assert speed_up(case, base).ratio == pytest.approx(2.0)
